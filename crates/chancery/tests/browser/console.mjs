// The console: every screen in every look, journeys by keyboard alone, journeys that hurt, and what the first list weighs.

import assert from 'node:assert/strict'
import { gzipSync } from 'node:zlib'
import { everyLook, journey, settings } from './browser.mjs'
import { go, heading, open, settled, tabTo, tabToName } from './console_steps.mjs'

const { api, username, password, screens, hostile } = settings

await journey('every screen', async (page, tab) => {
  page.on('dialog', (dialog) => assert.fail(`a script ran: ${dialog.message()}`))
  await open(page)
  for (const path of screens) {
    await go(page, path)
    assert.equal(await page.locator('main h1').count(), 1, path)
    assert.equal(await page.evaluate(() => globalThis.ran), undefined, `${path}: a script ran`)
    await tab.isAccessible(path)
    tab.isSilent()
  }
}, everyLook)

await journey('what the first list weighs', async (page) => {
  await open(page)
  const files = []
  page.on('response', (response) => {
    if (response.url().includes('/console/assets/')) files.push(response)
  })
  const fresh = await page.context().newPage()
  fresh.on('response', (response) => {
    if (response.url().includes('/console/assets/')) files.push(response)
  })
  await fresh.goto(`${api}/console/admin/users`)
  await fresh.waitForSelector('tbody tr')
  const sizes = await Promise.all(files.map(async (file) => [file.url().split('/').at(-1), gzipSync(await file.body(), { level: 9 }).length]))
  const sum = sizes.reduce((all, [, size]) => all + size, 0)
  assert.ok(sum <= 160 * 1024 && sizes.length <= 8, `${sum} bytes: ${JSON.stringify(sizes)}`)
})

await journey('signing in, finding somebody, editing and saving by keyboard alone', async (page) => {
  await open(page)
  await page.keyboard.press('g')
  await page.keyboard.press('u')
  await heading(page, 'Users')
  await page.waitForSelector('tbody tr')
  await page.keyboard.press('/')
  await page.keyboard.type('Number 7')
  await page.waitForFunction(() => document.querySelectorAll('tbody tr').length === 1)
  await page.keyboard.press('Escape')
  await page.evaluate(() => document.activeElement.blur())
  await page.keyboard.press('j')
  await page.keyboard.press('Enter')
  await heading(page, 'Person Number 7')
  await page.keyboard.press('e')
  await tabTo(page, '[name=job_title]')
  await page.keyboard.type('Clerk')
  await page.keyboard.press('Control+s')
  await page.waitForSelector('text=Saved.')
  assert.ok(await page.getByText('Clerk').first().isVisible())
})

await journey('the palette goes everywhere', async (page) => {
  await open(page)
  await page.keyboard.press('Control+k')
  await page.waitForSelector('[role=dialog] input:focus')
  await page.keyboard.type('new role')
  await page.waitForSelector('[role=menuitem]')
  await page.keyboard.press('Enter')
  await heading(page, 'New role')
  await page.keyboard.press('Control+k')
  await page.keyboard.type('Number 7')
  await page.waitForSelector('[role=menuitem]:has-text("Person Number 7")')
})

await journey('a role is made by keyboard alone, and an action brings along what it requires', async (page) => {
  await open(page, '/admin/roles/new')
  await tabTo(page, '[name=name]')
  await page.keyboard.type('Made by keys')
  const box = (name) => page.getByRole('checkbox', { name })
  await box(/^Users: Edit/).focus()
  await page.keyboard.press('Space')
  for (const name of [/^Users: View/, /^Users: List/]) assert.ok(await page.getByRole('checkbox', { name }).isChecked(), name)
  await page.keyboard.press('Control+s')
  await heading(page, 'Made by keys')
})

await journey('the first steps by keyboard alone', async (page) => {
  await open(page)
  await tabToName(page, 'Tell people whom to ask')
  await page.keyboard.press('Enter')
  await heading(page, 'Company')
  await page.waitForSelector('main dl')
  await page.keyboard.press('e')
  await tabTo(page, '[name=admin_email_address]')
  await page.keyboard.type('ask@example.com')
  await page.keyboard.press('Control+s')
  await page.waitForSelector('text=Saved.')
  await page.evaluate(() => document.activeElement.blur())
  await page.keyboard.press('g')
  await page.keyboard.press('h')
  await page.waitForSelector('li[data-done=true]:has-text("Tell people whom to ask")')
})

await journey('a field is declared and moved by keyboard alone', async (page) => {
  await open(page, '/admin/classes/2')
  await page.waitForSelector('text=New field')
  await tabToName(page, 'New field')
  await page.keyboard.press('Enter')
  await tabTo(page, '[role=dialog] [name=label]')
  await page.keyboard.type('By keys')
  await tabTo(page, '[role=dialog] [name=type]')
  await page.keyboard.type('Short')
  await page.keyboard.press('Control+s')
  await page.waitForSelector('text=by_keys')
  await tabToName(page, 'Move By keys up')
  await page.keyboard.press('Enter')
  await page.waitForFunction(() => {
    const aliases = [...document.querySelectorAll('main code')].map(({ textContent }) => textContent)
    return aliases.indexOf('by_keys') >= 0 && aliases.indexOf('by_keys') < aliases.indexOf('papers')
  })
})

await journey('rows are checked and imported by keyboard alone', async (page) => {
  await open(page, '/records/order/import')
  await settled(page)
  let chooser
  for (let n = 0; n < 3 && !chooser; n++) {
    await tabTo(page, 'input[type=file]')
    const asked = page.waitForEvent('filechooser', { timeout: 5000 }).catch(() => undefined)
    await page.keyboard.press('Enter')
    chooser = await asked
  }
  assert.ok(chooser, 'no file is asked for')
  const buffer = Buffer.from('Title;Total;Due\nOne;1,5;2026-01-31\nTwo;x;2026-01-31\n')
  await chooser.setFiles({ name: 'orders.csv', mimeType: 'text/csv', buffer })
  await page.waitForSelector('text=2 rows with 3 columns.')
  await tabToName(page, 'Check all rows')
  await page.keyboard.press('Enter')
  await page.waitForSelector('text=One row would be refused.')
  await tabToName(page, 'Import 2 rows')
  await page.keyboard.press('Enter')
  await page.waitForSelector('text=One record was made')
})

await journey('what is wrong is told at its field, and the focus goes there', async (page, tab) => {
  await open(page, '/admin/users/new')
  await page.getByRole('button', { name: 'Create', exact: true }).click()
  await page.waitForSelector('[role=alert]')
  tab.isSilent('400')
  await tab.isAccessible('with messages')
  await page.locator('[role=alert] button').first().press('Enter')
  await page.waitForSelector('[name=username]:focus')
  assert.equal(await page.locator('[name=username]').getAttribute('aria-invalid'), 'true')
}, everyLook)

await journey('filters stand in the address, and one of a field that is gone can be dropped', async (page) => {
  await open(page, '/admin/users')
  await page.goto(`${api}/console/admin/users?account_type__in=internal&gone=1&ordering=-username&limit=50`)
  await page.waitForSelector('text=Account type is any of Internal')
  await page.getByRole('button', { name: 'Remove the filter of gone' }).click()
  await page.waitForURL((url) => !url.search.includes('gone'))
  assert.ok(new URL(page.url()).search.includes('account_type__in=internal'))
})

await journey('somebody else changed the same object', async (page, tab) => {
  await open(page, '/admin/users/3')
  const other = await page.context().newPage()
  await other.goto(`${api}/console/admin/users/3`)
  for (const one of [page, other]) {
    await one.getByRole('button', { name: 'Edit' }).click()
    await one.waitForSelector('[name=phone]')
  }
  await other.fill('[name=phone]', '2')
  await other.fill('[name=mobile]', '3')
  await other.getByRole('button', { name: 'Save', exact: true }).click()
  await other.waitForSelector('text=Saved.')
  await page.fill('[name=phone]', '1')
  await page.fill('[name=job_title]', 'Ours')
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.waitForSelector('[role=alertdialog]')
  tab.isSilent('412')
  await tab.isAccessible('both changed')
  await page.getByRole('radio', { name: /Yours/ }).check()
  await page.getByRole('button', { name: 'Go on' }).click()
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.waitForSelector('text=Saved.')
  const facts = await page.locator('dl').first().innerText()
  for (const kept of ['Ours', '1', '3']) assert.ok(facts.includes(kept), facts)
})

await journey('a session that ended elsewhere loses nothing that was typed', async (page, tab) => {
  await open(page, '/admin/users/4')
  await page.getByRole('button', { name: 'Edit' }).click()
  await page.fill('[name=job_title]', 'Typed before')
  const cookies = await page.context().cookies()
  const other = await page.context().newPage()
  await other.goto(`${api}/console/`)
  await other.getByRole('button', { name: /Account/ }).click()
  await other.getByRole('menuitem', { name: 'Sign out' }).click()
  await other.waitForURL(`${api}/sign-in/**`)
  await page.waitForSelector('[role=alertdialog]')
  await tab.isAccessible('signed out')
  assert.ok(cookies.length > 0)
  const [again] = await Promise.all([page.context().waitForEvent('page'), page.getByRole('button', { name: 'Sign in again' }).click()])
  await again.waitForSelector('[name=username]')
  await again.fill('[name=username]', username)
  await again.fill('[name=password]', password)
  await again.keyboard.press('Enter')
  await page.waitForSelector('[role=alertdialog]', { state: 'detached' })
  assert.equal(await page.inputValue('[name=job_title]'), 'Typed before')
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.waitForSelector('text=Saved.')
  tab.console.splice(0)
})

await journey('a server that is away is waited for', async (page, tab) => {
  await open(page, '/admin/users/5')
  await page.getByRole('button', { name: 'Edit' }).click()
  await page.fill('[name=job_title]', 'Typed offline')
  await page.context().setOffline(true)
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.waitForSelector('text=The server cannot be reached.')
  await page.context().setOffline(false)
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.waitForSelector('text=Saved.')
  tab.console.splice(0)
})

await journey('what was typed is not left without a question', async (page) => {
  await open(page, '/admin/users/6')
  await page.getByRole('button', { name: 'Edit' }).click()
  await page.fill('[name=job_title]', 'Unsaved')
  await page.getByRole('link', { name: 'Roles' }).click()
  await page.waitForSelector('text=Leave without saving?')
  await page.getByRole('button', { name: 'Cancel' }).last().click()
  assert.equal(await page.inputValue('[name=job_title]'), 'Unsaved')
})

await journey('script in every text is shown as text', async (page) => {
  page.on('dialog', (dialog) => assert.fail(`a script ran: ${dialog.message()}`))
  await open(page, '/admin/roles')
  await page.getByText(hostile).first().waitFor()
  assert.equal(await page.evaluate(() => globalThis.ran), undefined)
})

await journey('the theme is that of the account, and nothing flashes', async (page) => {
  await open(page, '/me')
  await page.getByRole('radio', { name: 'Dark' }).check()
  await page.waitForFunction(() => document.documentElement.dataset.theme === 'dark')
  await settled(page)
  const shell = await page.request.get(`${api}/console/`)
  assert.match(await shell.text(), /data-theme="dark"/)
  await page.getByRole('radio', { name: 'As the device' }).check()
  await settled(page)
})

await journey('another site gets nothing', async (page) => {
  await open(page)
  const other = await page.context().newPage()
  await other.route('http://localhost:9999/**', (route) => route.fulfill({ contentType: 'text/html', body: '<h1>Other</h1>' }))
  await other.goto('http://localhost:9999/')
  const answers = []
  other.on('response', (response) => answers.push([new URL(response.url()).pathname, response.status()]))
  for (const path of ['/api/auth/browser/token/', '/api/auth/browser/logout/', '/sign-in/']) {
    const ask = (mode) => other.evaluate(([url, how]) => fetch(url, { method: 'POST', credentials: 'include', mode: how }).then(({ type }) => type, () => 'refused'), [api + path, mode])
    // Some browsers send none at all to a machine's own addresses.
    assert.ok(['opaque', 'refused'].includes(await ask('no-cors')), path)
    assert.equal(await ask('cors'), 'refused', path)
  }
  for (const [path, status] of answers) assert.equal(status, 403, path)
  await other.setContent(`<form method="post" action="${api}/sign-in/"><input name="username" value="${username}"><input name="password" value="${password}"></form>`)
  const [posted] = await Promise.all([other.waitForEvent('response', (response) => response.url() === `${api}/sign-in/`), other.evaluate(() => document.forms[0].submit())])
  assert.equal(posted.status(), 403)
  await other.waitForURL(`${api}/sign-in/`)
  await other.goto('http://localhost:9999/')
  await other.setContent(`<iframe src="${api}/console/"></iframe>`)
  await other.waitForTimeout(500)
  assert.ok(!other.frames().some((frame) => frame.url().startsWith(api)), 'the console is shown in a frame')
  // The session still stands, and nothing of it can be read by a script.
  await page.reload()
  await page.waitForSelector('main h1')
  const readable = await page.evaluate(() => JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }]))
  assert.ok(!/chancery=|eyJ/.test(readable), readable)
})

await journey('a way back leads to the console alone', async (page) => {
  for (const to of ['//evil.example/', 'https://evil.example/', '/console/../api/docs/', '/console/%2e%2e/api/docs/', '/\\evil.example/', 'javascript:alert(1)']) {
    await page.goto(`${api}/sign-in/?return_to=${encodeURIComponent(to)}`)
    await page.fill('[name=username]', username)
    await page.fill('[name=password]', password)
    await page.keyboard.press('Enter')
    await page.waitForURL(`${api}/console/`)
  }
})
