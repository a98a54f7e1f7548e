// The daily work of administrators and clerks: each shown fact is correct, and each link leads to a page.

import assert from 'node:assert/strict'
import { end, journey, settings } from './browser.mjs'
import { go, heading, open, settled } from './console_steps.mjs'

const { api, fia, anna } = settings
const DIALOG = '[role=dialog], [role=alertdialog]'
const main = (page) => page.locator('main')
const press = (page, name) => page.getByRole('button', { name, exact: true }).first().click()
const choose = async (page, menu, item) => {
  await page.getByRole('button', { name: menu }).first().click()
  await page.getByRole('menuitem', { name: item }).first().click()
}
const rows = (page) => page.locator('tbody tr')
const selected = (page) => page.locator('tr[aria-selected=true]').count()
const addressed = (page) => decodeURIComponent(new URL(page.url()).search)

await journey('a permission set of a class gives every right, and is edited again', async (page, tab) => {
  await open(page, '/admin/classes/2')
  await press(page, 'New permission set')
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Name').fill('Everything')
  const boxes = dialog.getByRole('checkbox')
  await boxes.first().waitFor()
  for (let n = 0; n < (await boxes.count()); n++) await boxes.nth(n).check()
  // Actions that require each other are also selected together.
  await dialog.getByRole('checkbox', { name: /^Records: List/ }).uncheck()
  assert.equal(await dialog.getByRole('checkbox', { name: /^Records: Edit( \(|$)/ }).isChecked(), false)
  await dialog.getByRole('checkbox', { name: /^Records: Edit( \(|$)/ }).check()
  assert.equal(await dialog.getByRole('checkbox', { name: /^Records: List/ }).isChecked(), true)
  await dialog.getByRole('button', { name: 'Save', exact: true }).click()
  await page.waitForSelector('text=Saved.')
  await page.locator('summary', { hasText: 'Everything' }).click()
  await page.locator('details[open]', { hasText: 'Everything' }).getByRole('button', { name: 'Edit' }).click()
  await page.getByRole('dialog').getByRole('checkbox', { name: /^Records: View/ }).waitFor()
  await tab.isAccessible('a set that is edited')
})

await journey('everybody who has a role is listed, whichever others they have', async (page) => {
  await open(page, '/admin/roles/1')
  for (const name of ['Anna Berg', 'Farid Aziz']) await main(page).getByRole('link', { name }).waitFor()
  await go(page, '/admin/roles/2')
  await main(page).getByRole('link', { name: 'Anna Berg' }).waitFor()
})

await journey('roles, records and templates are called by their names', async (page) => {
  await open(page, '/admin/users')
  await page.getByRole('row', { name: /Anna Berg/ }).getByText('Records').waitFor()
  await go(page, '/tasks')
  await page.getByRole('row', { name: /Pay it/ }).getByText('I-2').waitFor()
  await go(page, '/tasks/board')
  await page.locator('li', { hasText: 'Pay it' }).getByText('I-2').waitFor()
  await go(page, '/tasks/1')
  const about = page.getByRole('complementary')
  await about.getByRole('link', { name: 'Pay the invoice' }).waitFor()
  await about.getByRole('link', { name: 'I-2', exact: true }).click()
  await page.waitForURL(`${api}/console/records/invoice/2`)
})

await journey('a due day is the same in every time zone', async (page) => {
  await open(page, '/tasks')
  const [day, next] = ['31 Dec 2026', '1 Jan 2027']
  for (const path of ['/', '/tasks', '/tasks/board', '/tasks/1', '/records/invoice/2']) {
    await go(page, path)
    await main(page).getByText(day).first().waitFor()
    assert.ok(!(await main(page).innerText()).includes(next), path)
  }
})

await journey('an account that waits for its link, where no mail leaves the server', async (page, tab) => {
  await open(page, '/admin/users/new')
  for (const [name, text] of [['username', 'new@example.com'], ['first_name', 'New'], ['last_name', 'Person']])
    await page.fill(`[name=${name}]`, text)
  await page.locator('[name=account_type]').first().selectOption('internal')
  await press(page, 'Create')
  await heading(page, 'New Person')
  await main(page).getByText('No mail server is set up, so nothing was sent.').waitFor()
  await tab.isAccessible('nothing was sent')
  assert.equal(await main(page).getByRole('link', { name: 'Mail', exact: true }).getAttribute('href'), '/console/admin/mail')
  await choose(page, 'Actions', 'Send activation link')
  await page.locator('[role=status], [role=alert]', { hasText: 'No mail server is set up' }).first().waitFor()
  assert.equal(await page.getByText('The link was sent.').count(), 0)
  const made = page.waitForResponse((response) => new URL(response.url()).pathname.endsWith('/activation-link/'))
  await main(page).getByRole('button', { name: 'Copy activation link' }).click()
  const { url, expires_at } = await (await made).json()
  const dialog = page.getByRole('alertdialog')
  await dialog.getByText(url).waitFor()
  const date = { day: 'numeric', month: 'short', year: 'numeric', timeZone: 'Europe/Berlin' }
  await dialog.getByText(`Valid until ${new Date(expires_at).toLocaleDateString('en-GB', date)}`).waitFor()
  await tab.isAccessible('the link')
})

await journey('a status needs its first option, and an added option has the focus', async (page) => {
  await open(page, '/admin/classes/2')
  await press(page, 'New field')
  const dialog = page.getByRole('dialog')
  await dialog.locator('[name=type]').selectOption('enum')
  await dialog.getByRole('button', { name: 'Add an option' }).click()
  await page.waitForSelector('[name="options.0.text"]:focus')
  await page.keyboard.type('Open')
  await dialog.getByRole('button', { name: 'Add an option' }).click()
  await page.waitForSelector('[name="options.1.text"]:focus')
  await dialog.locator('[name=type]').selectOption('status')
  const label = dialog.locator('label', { hasText: 'First status' })
  assert.equal(await label.textContent(), 'First status')
})

await journey('a section that is added to the menu is named at once', async (page) => {
  await open(page, '/admin/interface')
  await press(page, 'Add a section')
  await page.waitForSelector('[name="sections.0.title"]:focus')
})

await journey('a record that is not visible has the same name everywhere', async (page, tab) => {
  await open(page, '/records/invoice', { username: fia, password: settings.password })
  const hidden = 'Record 1 (not visible to you)'
  await page.getByRole('row', { name: /I-2/ }).getByText(hidden).waitFor()
  await page.getByRole('link', { name: 'I-2', exact: true }).click()
  await heading(page, 'I-2')
  await page.locator('dd', { hasText: hidden }).first().waitFor()
  await page.getByRole('complementary').getByText(hidden).first().waitFor()
  assert.equal(await page.locator('main a[href*="/records/-/"]').count(), 0)
  await settled(page)
  tab.isSilent()
})

await journey('an order and a filter of fields that are gone', async (page) => {
  await open(page, '/records/invoice?ordering=nosuch')
  await rows(page).first().waitFor()
  await page.getByText('nosuch (unknown order)').waitFor()
  await press(page, 'Remove the order by nosuch')
  await page.waitForURL((url) => !url.search.includes('ordering'))

  await go(page, '/records/invoice?gone=1')
  await page.getByText('gone=1 (unknown filter)').waitFor()
  await rows(page).first().getByRole('checkbox').check()
  await page.getByText('To act on all matching records, remove the unknown filters first').waitFor()
  assert.equal(await page.getByRole('checkbox', { name: /All .*matching records/ }).count(), 0)
  let isExported = false
  page.on('request', (request) => {
    isExported ||= request.url().includes('/export/')
  })
  await choose(page, /^More of/, 'Export as CSV')
  await page.getByText('Nothing was exported').first().waitFor()
  assert.equal(isExported, false)
  await press(page, 'Remove the filter of gone')
  await rows(page).first().getByRole('checkbox').check()
  await page.getByRole('checkbox', { name: /All .*matching records/ }).waitFor()
})

await journey('the home page and the board name ignored parts', async (page, tab) => {
  await open(page)
  await main(page).getByText('Not applied, because the class does not have it any more: gone.').waitFor()
  await main(page).getByText('Not applied, because the class does not have it any more: -nosuch.').waitFor()
  await main(page).getByRole('link', { name: 'I-2', exact: true }).waitFor()
  await tab.isAccessible('home')
  await go(page, '/tasks/board?gone=1')
  await main(page).getByText('gone=1 (unknown filter)').waitFor()
  tab.isSilent()
})

await journey('the focus goes to the heading of each new page', async (page) => {
  await open(page)
  const isThere = async (title) => {
    await heading(page, title)
    await settled(page)
    assert.equal(await page.evaluate(() => document.activeElement?.outerHTML.slice(0, 200).replace(/^<h1.*/, 'h1')), 'h1', title)
    assert.equal(await page.evaluate(() => document.activeElement?.textContent), title)
  }
  const menu = page.getByRole('navigation', { name: 'Menu' })
  for (const [entry, title] of [['Tasks', 'My tasks'], ['Users', 'Users'], ['Classes', 'Classes'], ['Log', 'Log']]) {
    await menu.getByRole('link', { name: entry, exact: true }).click()
    await isThere(title)
  }
  await go(page, '/records/invoice')
  await page.getByRole('link', { name: 'I-5', exact: true }).click()
  await isThere('I-5')
  await page.keyboard.press('Control+k')
  await page.waitForSelector('[role=dialog] input:focus')
  await page.keyboard.type('Go to Roles')
  await page.getByRole('menuitem', { name: /Roles/ }).first().waitFor()
  await page.keyboard.press('Enter')
  await isThere('Roles')
  await page.keyboard.press('c')
  await isThere('New role')
})

await journey('a list of cards is sorted, too', async (page, tab) => {
  await open(page, '/records/invoice')
  assert.equal(await page.locator('thead').isVisible(), false)
  const first = () => page.locator('tbody th a').first()
  await page.getByRole('combobox', { name: /^Order/ }).selectOption('-number')
  await page.waitForURL((url) => url.search.includes('ordering=-number'))
  await first().getByText('I-9').waitFor()
  await page.getByRole('checkbox', { name: 'Select all on this page' }).check()
  assert.equal(await selected(page), 25)
  await tab.isAccessible('cards')
}, { widths: [320] })

await journey('a field of many records is emptied only by those who say so', async (page, tab) => {
  await open(page, '/records/invoice')
  for (const n of [0, 1]) await rows(page).nth(n).getByRole('checkbox').check()
  await press(page, 'Edit a field')
  const dialog = page.getByRole('dialog')
  await dialog.locator('[name=field]').selectOption('note')
  const save = dialog.getByRole('button', { name: 'Save', exact: true })
  assert.equal(await save.isDisabled(), true)
  await dialog.locator('[name=value]').fill('Seen')
  assert.equal(await save.isDisabled(), false)
  await dialog.getByLabel('Clear “Note”').check()
  assert.equal(await save.count(), 0)
  await tab.isAccessible('emptying a field')
  await dialog.getByRole('button', { name: 'Clear the field of 2 records' }).waitFor()
  // Yes and no are chosen. An untouched box is not an answer.
  await dialog.locator('[name=field]').selectOption('paid')
  assert.equal(await save.isDisabled(), true)
  await dialog.locator('[name=value]').selectOption('true')
  await save.click()
  await page.getByText('Done with 2 records.').waitFor()
})

await journey('a class is deleted by its name alone', async (page, tab) => {
  await open(page, '/admin/classes')
  await rows(page).first().getByRole('checkbox').check()
  assert.equal(await page.getByRole('button', { name: 'Delete', exact: true }).count(), 0)
  await go(page, '/admin/classes/2')
  await choose(page, 'Actions', 'Delete')
  const dialog = page.locator(DIALOG)
  await dialog.getByText('Its 30 records are deleted, too.').waitFor()
  await dialog.getByText('You cannot undo this.').waitFor()
  const remove = dialog.getByRole('button', { name: 'Delete', exact: true })
  assert.equal(await remove.isDisabled(), true)
  await tab.isAccessible('deleting a class')
  await dialog.getByLabel('Type “Invoice” to confirm').fill('Invoice')
  assert.equal(await remove.isDisabled(), false)
  await page.keyboard.press('Escape')
  await go(page, '/records/invoice/2')
  await choose(page, 'Actions', 'Delete')
  await dialog.getByText('The record can be restored for 30 days, without its tasks.').waitFor()
  assert.equal(await dialog.getByText('You cannot undo this.').count(), 0)
})

await journey('a click with Shift selects all rows in between', async (page) => {
  await open(page, '/records/invoice')
  const box = (n) => rows(page).nth(n).getByRole('checkbox')
  await box(1).click()
  await box(5).click({ modifiers: ['Shift'] })
  assert.equal(await selected(page), 5)
  await box(3).click({ modifiers: ['Shift'] })
  assert.equal(await selected(page), 2)
})

await journey('the filters of a relation', async (page) => {
  await open(page, '/records/invoice')
  const add = async (name) => {
    await page.keyboard.press('f')
    await page.getByRole('menuitem', { name, exact: true }).click()
    await page.waitForSelector('[role=dialog] form')
  }
  await add('Customer')
  const predicate = page.getByRole('dialog').locator('[name=predicate]')
  const offered = await predicate.locator('option').allTextContents()
  for (const none of ['is more than', 'is from', 'is less than', 'is up to', 'is between']) assert.ok(!offered.includes(none), `${offered}`)
  await predicate.selectOption({ label: 'is not empty' })
  await page.getByRole('dialog').getByRole('button', { name: 'Filter' }).click()
  await page.waitForURL((url) => url.search.includes('customer__isnull=false'))
  await page.getByRole('button', { name: 'Customer is not empty' }).waitFor()
  // The number of a record and its field of that name are two things.
  await page.keyboard.press('f')
  await page.getByRole('menuitem', { name: 'ID', exact: true }).waitFor()
  assert.equal(await page.getByRole('menuitem', { name: 'Number', exact: true }).count(), 1)
})

await journey('filters that find all others', async (page) => {
  const asked = []
  page.on('request', (request) => asked.push(decodeURIComponent(request.url())))
  await open(page, '/records/invoice')
  await page.keyboard.press('f')
  await page.getByRole('menuitem', { name: 'State', exact: true }).click()
  const dialog = page.getByRole('dialog')
  await dialog.locator('[name=predicate]').selectOption({ label: 'is none of' })
  await dialog.getByLabel('Paid').check()
  await dialog.getByRole('button', { name: 'Filter' }).click()
  await page.getByRole('button', { name: 'State is none of Paid' }).waitFor()
  // All invoices are open.
  await rows(page).first().waitFor()
  assert.ok(addressed(page).includes('state__in__exclude=paid'), page.url())
  assert.ok(asked.some((url) => url.includes('/object-records/?state__in__exclude=paid')), asked.join('\n'))
})

await journey('an agent is connected without an integration, and a webhook is described', async (page, tab) => {
  await open(page, '/admin/connectors/new')
  await page.getByRole('combobox', { name: 'Integration' }).click()
  await page.getByRole('option', { name: 'New integration' }).click()
  await heading(page, 'New integration')
  await page.getByRole('radio', { name: 'AI MCP' }).waitFor()
  assert.equal(await page.getByRole('radio', { name: 'AI MCP' }).isChecked(), true)
  await page.fill('[name=name]', 'Agents')
  await page.fill('[name=redirect_uris]', 'http://127.0.0.1/callback')
  await press(page, 'Create')
  await heading(page, 'Agents')
  await main(page).getByRole('link', { name: 'New connector' }).click()
  await heading(page, 'New connector')
  await page.waitForFunction(() => document.querySelector('main [role=combobox]')?.value === 'Agents')

  await go(page, '/admin/integrations/new')
  await page.getByRole('radio', { name: 'Webhook' }).check()
  assert.equal(await page.locator('[name=url]').evaluate((one) => one.tagName), 'INPUT')
  await page.getByRole('combobox', { name: /Authentication object/ }).waitFor()
  await page.getByText('The value is not shown again after you save it.', { exact: true }).waitFor()
  await page.getByText('An https address.').waitFor()
  await tab.isAccessible('a new webhook')
})

await journey('choices close when one is taken', async (page) => {
  await open(page, '/admin/groups/1')
  const input = page.getByRole('combobox', { name: 'Add to Members' })
  await input.click()
  await page.getByRole('option', { name: 'Anna Berg' }).click()
  await page.waitForSelector('[role=listbox]', { state: 'detached' })
  // One click is enough for the next control.
  await page.getByRole('button', { name: 'Add one' }).click({ timeout: 5000 })
  await page.getByText('Saved.').waitFor()
  await input.focus()
  await settled(page)
  assert.equal(await page.locator('[role=listbox]').count(), 0)
})

await journey('the log of a class tells of its fields and names people', async (page) => {
  await open(page, '/admin/classes/2')
  const log = page.getByRole('complementary')
  await log.getByText('Field “State”').waitFor()
  await go(page, '/admin/classes/1')
  await log.getByText('Owners added').locator('..').getByText('admin').waitFor()
  await go(page, '/admin/log?resource=object_class_fields')
  await main(page).getByText('Decimal number').first().waitFor()
  await main(page).getByText('Customer', { exact: true }).first().waitFor({ state: 'attached' })
})

await journey('a slow server: the frame, and a bar until the answer arrives', async (page) => {
  await open(page)
  // The answers are the server's own. They are only delayed, since none of this server takes as long as over a slow network.
  await page.route('**/console/assets/*/main.js', async (route) => {
    await new Promise((resolve) => setTimeout(resolve, 1500))
    await route.continue()
  })
  await page.reload({ waitUntil: 'commit' })
  await page.waitForFunction(() => document.querySelector('#root:empty') && Number.parseFloat(getComputedStyle(document.querySelector('#root'), '::before').height) > 40)
  await heading(page, 'Welcome, admin')
  await go(page, '/records/invoice')
  await page.route('**/api/object-records/3/', async (route) => {
    await new Promise((resolve) => setTimeout(resolve, 1000))
    await route.continue()
  })
  await page.getByRole('link', { name: 'I-3', exact: true }).click()
  await page.waitForSelector('.fetching', { state: 'attached' })
  await heading(page, 'I-3')
  await page.waitForSelector('.fetching', { state: 'detached' })
})

await journey('a change without a connection is saved when the connection returns', async (page, tab) => {
  await open(page, '/records/invoice/4')
  await press(page, 'Edit')
  await page.fill('[name=note]', 'Typed on a train')
  await page.context().setOffline(true)
  await press(page, 'Save')
  await page.getByText('The server cannot be reached.').first().waitFor()
  await page.context().setOffline(false)
  await page.getByText('Saved.').waitFor()
  await main(page).getByText('Typed on a train').first().waitFor()
  tab.console.splice(0)
})

await journey('a user who is not a super admin does not see the step for super admins', async (page) => {
  await open(page, '/', { username: anna, password: settings.password })
  await page.getByRole('heading', { name: 'First steps' }).waitFor()
  await settled(page)
  assert.equal(await page.getByText('Add a second super admin').count(), 0)
})

await end()
