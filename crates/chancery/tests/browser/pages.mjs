// The pages to sign in, activate and reset.

import assert from 'node:assert/strict'
import { end, everyWidth, journey, settings } from './browser.mjs'

const { api, username, password, activation, reset } = settings
const h1 = (page) => page.locator('main h1').innerText()
const signIn = async (page, as) => {
  await page.fill('[name=username]', username)
  await page.fill('[name=password]', as)
  await page.click('button')
}

await journey('every page', async (page, tab) => {
  for (const [path, title, failed = ''] of [
    ['/sign-in/', 'Sign in'],
    [`/activate/?token=${activation}`, 'Activate your account'],
    ['/activate/', 'Activate your account'],
    ['/activate/?token=dead', 'Activate your account', 'Failed: '],
    ['/password-reset/', 'Reset your password'],
    [`/password-reset/?token=${reset}`, 'Choose a new password'],
    ['/password-reset/?token=dead', 'Reset your password', 'Failed: '],
  ]) {
    await page.goto(api + path)
    assert.equal(await h1(page), title, path)
    assert.equal(await page.title(), `${failed}${title} · localhost`)
    await tab.isAccessible(path)
    tab.isSilent()
  }
  await page.goto(`${api}/activate/?token=${activation}`)
  await page.fill('[name=password]', 'short')
  await page.click('button')
  assert.deepEqual(await page.locator('[role=alert] li').allInnerTexts(), ['At least 12 characters'])
  await tab.isAccessible('a password that breaks a rule')
  tab.isSilent('400')
  await page.goto(`${api}/sign-in/?for=program`)
  await signIn(page, 'wrong')
  await tab.isAccessible('a wrong password')
  tab.isSilent('401')
  await signIn(page, password)
  assert.equal(await h1(page), 'Signed in')
  await tab.isAccessible('signed in')
}, everyWidth)

await journey('signing in with the keyboard alone leads back', async (page) => {
  await page.goto(`${api}/sign-in/?for=program&return_to=/api/docs/`)
  await page.waitForSelector('[name=username]:focus')
  await page.keyboard.type(username)
  await page.keyboard.press('Tab')
  await page.keyboard.type(password)
  await page.keyboard.press('Enter')
  await page.waitForSelector('text=You are signed in.')
  await page.keyboard.press('Tab')
  await page.keyboard.press('Enter')
  await page.waitForURL(`${api}/api/docs/`, { waitUntil: 'commit' })
})

await journey('a wrong password keeps the address, and the next one is typed at once', async (page, tab) => {
  await page.goto(`${api}/sign-in/`)
  await signIn(page, 'wrong')
  assert.equal(await page.locator('[role=alert]').innerText(), 'Unable to sign in with the credentials given.')
  tab.isSilent('401')
  assert.equal(await page.inputValue('[name=username]'), username)
  await page.waitForSelector('[name=password]:focus')
  await page.keyboard.type(password)
  await page.keyboard.press('Enter')
  await page.waitForURL(`${api}/console/`)
})

await journey('a person is led on, and stays signed in without anything that a script could read', async (page) => {
  await page.goto(`${api}/sign-in/?return_to=/console/me`)
  await page.check('text=Keep me signed in')
  await signIn(page, password)
  await page.waitForURL(`${api}/console/me`)
  const [cookie] = await page.context().cookies()
  const { name, path, httpOnly, sameSite } = cookie
  assert.deepEqual({ name, path, httpOnly, sameSite }, { name: 'chancery', path: '/', httpOnly: true, sameSite: 'Strict' })
  assert.ok(cookie.expires > Date.now() / 1000 + 6 * 86_400, `it expires at ${cookie.expires}`)
  const start = () =>
    page.evaluate(() => fetch('/api/auth/browser/token/', { method: 'POST' }).then((answer) => answer.status))
  assert.equal(await start(), 200)
  await page.reload()
  assert.equal(await start(), 200)
})

await journey('an activation link that is dead names whom to ask', async (page) => {
  await page.goto(`${api}/activate/?token=dead`)
  assert.equal(await page.locator('main a[href^=mailto]').innerText(), 'ada@company.example')
})

await journey('a reset link that is dead offers a new one', async (page) => {
  await page.goto(`${api}/password-reset/?token=dead`)
  await page.waitForSelector('[name=username]:focus')
  await page.keyboard.type(username)
  await page.keyboard.press('Enter')
  await page.waitForSelector('h1:has-text("Check your mail")')
  await page.click('text=Back to sign-in')
  assert.equal(await h1(page), 'Sign in')
})

await journey('people activate without scripts, by rules that they see beforehand', async (page) => {
  await page.goto(`${api}/activate/?token=${activation}`)
  assert.deepEqual(await page.locator('#rules li').allInnerTexts(), ['At least 12 characters', 'At most 512 characters'])
  await page.fill('[name=password]', 'long enough for all')
  await page.click('button')
  await page.click('text=Sign in')
  assert.equal(await h1(page), 'Sign in')
}, { javaScriptEnabled: false })

await end()
