// The page on which a person grants an agent access.

import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import { end, everyWidth, journey, settings } from './browser.mjs'

const { api, clientId, clientSecret, username, password } = settings
const h1 = (page) => page.locator('main h1').innerText()

// The agent, a program on the person's computer to which the browser returns, and a page that sets traps.
const returned = []
let trap
const other = createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url, 'http://localhost')
  if (pathname === '/callback') returned.push(searchParams)
  response.setHeader('Content-Type', 'text/html')
  response.end(`<!doctype html><link rel="icon" href="data:,">${pathname === '/trap' ? trap : '<h1>Back at the agent</h1>'}`)
}).listen(0, '127.0.0.1')
await new Promise((resolve) => other.once('listening', resolve))
const callback = `http://127.0.0.1:${other.address().port}/callback`
// For a browser this is another site.
const trapAddress = `http://localhost:${other.address().port}/trap`

const verifier = randomBytes(40).toString('base64url')
const address = (changed = {}) => `${api}/oauth/authorize?${new URLSearchParams({
  client_id: clientId,
  redirect_uri: callback,
  response_type: 'code',
  state: 'of the agent',
  code_challenge: createHash('sha256').update(verifier).digest('base64url'),
  code_challenge_method: 'S256',
  ...changed,
})}`

const signIn = async (page, as) => {
  await page.fill('[name=username]', username)
  await page.fill('[name=password]', as)
  await page.click('button:has-text("Sign in")')
}

await journey('the pages of an agent', async (page, tab) => {
  await page.goto(address())
  assert.equal(await h1(page), 'Sign in')
  assert.match(await page.locator('main').innerText(), /^Sign in\s+Assistant asks to work for you\./)
  await tab.isAccessible('to sign in')
  tab.isSilent()
  await signIn(page, 'wrong')
  assert.equal(await page.locator('[role=alert]').innerText(), 'Unable to sign in with the credentials given.')
  assert.equal(await page.inputValue('[name=username]'), username)
  await tab.isAccessible('a wrong password')
  tab.isSilent('401')
  await signIn(page, password)
  assert.equal(await h1(page), 'Let an agent work for you')
  assert.deepEqual(await page.locator('strong').allInnerTexts(), ['Assistant', username, new URL(callback).host])
  await tab.isAccessible('to consent')
  tab.isSilent()
  await page.goto(address({ redirect_uri: 'https://evil.example/' }))
  assert.equal(await h1(page), 'Not possible')
  await tab.isAccessible('a wrong address')
  tab.isSilent('400')
}, everyWidth)

/**
 * Signs in and consents by keyboard alone. `tabs`: presses of Tab that lead to the button. Returns the parameters that the
 * agent receives.
 */
async function decides(page, tabs) {
  await page.goto(address())
  await page.waitForSelector('[name=username]:focus')
  await page.keyboard.type(username)
  await page.keyboard.press('Tab')
  await page.keyboard.type(password)
  await page.keyboard.press('Enter')
  await page.waitForSelector('h1:has-text("Let an agent work for you")')
  for (let n = 0; n < tabs; n++) await page.keyboard.press('Tab')
  await page.keyboard.press('Enter')
  await page.waitForSelector('text=Back at the agent')
  return Object.fromEntries(returned.pop())
}

for (const javaScriptEnabled of [true, false]) {
  await journey(`by the keyboard alone, with scripts: ${javaScriptEnabled}`, async (page) => {
    const { code, ...told } = await decides(page, 1)
    assert.deepEqual(told, { state: 'of the agent', iss: api })
    const fields = { client_id: clientId, client_secret: clientSecret, code, redirect_uri: callback, code_verifier: verifier }
    const body = new URLSearchParams({ grant_type: 'authorization_code', ...fields })
    const tokens = await (await fetch(`${api}/oauth/token`, { method: 'POST', body })).json()
    assert.equal(tokens.token_type, 'Bearer')
    assert.deepEqual(await page.context().cookies(), [])
    assert.equal((await decides(page, 2)).error, 'access_denied')
  }, { javaScriptEnabled })
}

await journey('no frame shows it, of whatever origin', async (page, tab) => {
  await page.goto(address())
  await signIn(page, password)
  assert.equal(await h1(page), 'Let an agent work for you')
  trap = `<h1>A trap</h1><iframe src="${address().replaceAll('&', '&amp;')}"></iframe>`
  // A substitute, since the server has no page that frames another one.
  await page.route(`${api}/trap/`, (route) => route.fulfill({ contentType: 'text/html', body: trap }))
  for (const framing of [`${api}/trap/`, trapAddress]) {
    const happened = ['requestfailed', 'console'].map((event) => page.waitForEvent(event))
    const [refused] = await Promise.all([...happened, page.goto(framing)])
    const failure = [refused.url(), refused.failure().errorText]
    assert.deepEqual(failure, [address(), 'net::ERR_BLOCKED_BY_RESPONSE'], framing)
    tab.isSilent(`"frame-ancestors 'none'". The request has been blocked.`)
  }
})

await journey('a form of another page does not consent', async (page, tab) => {
  await page.goto(address())
  await signIn(page, password)
  const hidden = async (name) => page.locator(`[name=${name}]`).first().inputValue()
  const [request, token] = [await hidden('request'), await hidden('token')]
  // The form also contains the token.
  trap = `<form method="post" action="${api}/oauth/authorize/consent/">
    <input name="request" value="${request.replaceAll('&', '&amp;')}"><input name="token" value="${token}">
    <input name="decision" value="allow"><button>Win a prize</button></form>`
  await page.goto(trapAddress)
  await page.click('button')
  await page.waitForURL(`${api}/oauth/authorize/consent/`)
  assert.deepEqual(returned, [])
  tab.isSilent('403')
})

other.closeAllConnections()
other.close()

await end()
