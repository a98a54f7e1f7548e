// Failures during work in the console: no typed value is lost.

import assert from 'node:assert/strict'
import { ask, end, everyWidth, journey, settings } from './browser.mjs'
import { heading, open, settled, signIn } from './console_steps.mjs'

const { api } = settings

/** Opens a person's form, and types into it. */
async function typed(page, id, text) {
  await open(page, `/admin/users/${id}`)
  await page.getByRole('button', { name: 'Edit', exact: true }).click()
  await page.fill('[name=job_title]', text)
}

const isThere = async (page, text) => assert.equal(await page.inputValue('[name=job_title]'), text)

async function save(page) {
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.waitForSelector('text=Saved.')
}

async function signOut(page) {
  await page.getByRole('button', { name: /^Account/ }).click()
  await page.getByRole('menuitem', { name: 'Sign out' }).click()
  await page.waitForURL(`${api}/sign-in/**`)
}

await journey('an error appears at its field, which gets the focus', async (page, tab) => {
  await open(page, '/admin/users/new')
  await page.getByRole('button', { name: 'Create', exact: true }).click()
  await page.waitForSelector('[role=alert]')
  tab.isSilent('400')
  await tab.isAccessible('with messages')
  await page.locator('[role=alert] button').first().press('Enter')
  await page.waitForSelector('[name=username]:focus')
  assert.equal(await page.locator('[name=username]').getAttribute('aria-invalid'), 'true')
}, everyWidth)

await journey('filters stand in the address, and one of a field that is gone can be dropped', async (page) => {
  await open(page, '/admin/users')
  await page.goto(`${api}/console/admin/users?account_type__in=internal&gone=1&ordering=-username&limit=50`)
  await page.waitForSelector('text=Account type is any of Internal')
  await page.getByRole('button', { name: 'Remove the filter of gone' }).click()
  await page.waitForURL((url) => !url.search.includes('gone'))
  assert.ok(new URL(page.url()).search.includes('account_type__in=internal'))
})

await journey('another user changed the same object', async (page, tab) => {
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
  const dialog = page.getByRole('dialog', { name: 'admin changed the same' })
  await dialog.waitFor()
  tab.isSilent('412')
  await tab.isAccessible('both changed')
  // A closed dialog changes nothing, and asks again.
  await page.keyboard.press('Escape')
  await dialog.waitFor({ state: 'detached' })
  assert.equal(await page.inputValue('[name=phone]'), '1')
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await dialog.waitFor()
  tab.isSilent('412')
  await page.getByRole('radio', { name: /Yours/ }).check()
  await page.getByRole('button', { name: 'Save these' }).click()
  await page.waitForSelector('text=Saved.')
  const facts = await page.locator('dl').first().innerText()
  for (const kept of ['Ours', '1', '3']) assert.ok(facts.includes(kept), facts)
})

await journey('a form with changes asks before it is left', async (page) => {
  await open(page, '/admin/users/6')
  await page.getByRole('button', { name: 'Edit' }).click()
  await page.fill('[name=job_title]', 'Unsaved')
  await page.getByRole('link', { name: 'Roles' }).click()
  await page.waitForSelector('text=Leave without saving?')
  await page.getByRole('button', { name: 'Cancel' }).last().click()
  assert.equal(await page.inputValue('[name=job_title]'), 'Unsaved')
})

await journey('a session that ended elsewhere', async (page, tab) => {
  await typed(page, 4, 'Typed before')
  // As from a list of sessions, or by time: the console does not sign out.
  assert.equal(await page.evaluate(async () => (await fetch('/api/auth/browser/logout/', { method: 'POST' })).status), 204)
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.waitForSelector('[role=alertdialog]')
  await tab.isAccessible('signed out')
  const [again] = await Promise.all([page.context().waitForEvent('page'), page.getByRole('button', { name: 'Sign in again' }).click()])
  await signIn(again)
  await page.waitForSelector('[role=alertdialog]', { state: 'detached' })
  // The requests that waited for the session continue.
  await page.waitForSelector('text=Saved.')
  await page.getByText('Typed before').first().waitFor()
  tab.console.splice(0)
})

await journey('a sign-out empties the other tabs', async (page, tab) => {
  await typed(page, 4, 'Typed before')
  const other = await page.context().newPage()
  await other.goto(`${api}/console/`)
  await signOut(other)
  await page.waitForURL(`${api}/sign-in/`)
  await page.goBack().catch(() => {})
  await page.waitForSelector('[name=username]')
  assert.equal(await page.getByText('Typed before').count(), 0)
  tab.console.splice(0)
})

await journey('two tabs that sign out at once', async (page, tab) => {
  await open(page)
  const other = await page.context().newPage()
  await other.goto(`${api}/console/`)
  await other.waitForSelector('main h1')
  const menus = [page, other].map((one) => one.getByRole('button', { name: /^Account/ }).click())
  await Promise.all(menus)
  // The other tab may end the session of the second one first.
  const out = [page, other].map((one) => one.getByRole('menuitem', { name: 'Sign out' }).click({ timeout: 5000 }).catch(() => {}))
  await Promise.all(out)
  await page.waitForTimeout(500)
  for (const one of [page, other]) {
    await one.reload()
    await one.waitForSelector('[name=username]')
  }
  assert.deepEqual(await page.context().cookies(), [])
  tab.console.splice(0)
})

await journey('another person who signs in in a second tab', async (page, tab) => {
  await open(page, '/me')
  await page.getByText(settings.username).first().waitFor()
  const other = await page.context().newPage()
  await other.goto(`${api}/sign-in/`)
  await signIn(other, { username: settings.second, password: settings.password })
  await other.waitForSelector('main h1')
  // The first tab shows nothing of the former person any more.
  await page.getByText(settings.second).first().waitFor()
  assert.equal(await page.getByText(settings.username).count(), 0)
  tab.console.splice(0)
})

await journey('a server that is stopped, and started again', async (page, tab) => {
  await typed(page, 5, 'Typed before')
  await ask('stop')
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.waitForSelector('text=The server cannot be reached')
  // A user who returns to the tab later finds their changes, although the refetch failed, too.
  await page.evaluate(() => {
    const { now } = Date
    Date.now = () => now() + 60_000
    document.dispatchEvent(new Event('visibilitychange', { bubbles: true }))
  })
  await page.waitForTimeout(9000)
  await isThere(page, 'Typed before')
  await page.fill('[name=mobile]', '7')
  await ask('start')
  // The console sends it again without a press.
  await page.waitForSelector('text=Saved.')
  tab.console.splice(0)
  const facts = await page.locator('dl').first().innerText()
  for (const kept of ['Typed before', '7']) assert.ok(facts.includes(kept), facts)
  // A screen that was never opened is fetched as if nothing had been.
  await page.getByRole('link', { name: 'Limits' }).click()
  await heading(page, 'Limits')
  await settled(page)
})

/**
 * The server has a newer version: the files of the page's version are gone. Its answers are substitutes, because a newer
 * version would be another binary.
 */
async function update(page) {
  await page.route('**/console/assets/**', (route) => route.fulfill({ status: 404 }))
  await page.route('**/api/auth/browser/token/', async (route) => {
    const answer = await route.fetch()
    await route.fulfill({ response: answer, json: { ...(await answer.json()), version: '0123456789abcdef' } })
  })
}

await journey('an update of the server under a form', async (page, tab) => {
  await typed(page, 6, 'Typed before')
  await update(page)
  await page.getByRole('button', { name: /^Pages and actions/ }).click()
  await page.getByText('Chancery was updated meanwhile.').first().waitFor()
  await tab.isAccessible('updated')
  await isThere(page, 'Typed before')
  // A reload asks first, because of the changes. They can be saved before.
  const reload = page.getByRole('button', { name: 'Reload', exact: true })
  const asked = page.waitForEvent('dialog').then(async (dialog) => {
    await dialog.dismiss()
    return dialog.type()
  })
  await reload.click()
  assert.equal(await asked, 'beforeunload')
  await isThere(page, 'Typed before')
  await page.getByRole('button', { name: 'Close', exact: true }).click()
  await save(page)
  await page.unroute('**/console/assets/**')
  await page.unroute('**/api/auth/browser/token/')
  tab.console.splice(0)
})

await journey('an update of the server under a list', async (page, tab) => {
  await open(page, '/admin/users')
  await update(page)
  await page.getByRole('link', { name: 'Limits' }).click()
  await page.getByText('Chancery was updated meanwhile.').first().waitFor()
  await page.unroute('**/console/assets/**')
  await page.unroute('**/api/auth/browser/token/')
  await page.getByRole('button', { name: 'Reload', exact: true }).click()
  await heading(page, 'Limits')
  tab.console.splice(0)
})

await end()
