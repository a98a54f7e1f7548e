// A build that is empty is set up by keyboard alone: nothing is clicked, and nothing gets the focus but by keys.

import assert from 'node:assert/strict'
import { end, journey, settings } from './browser.mjs'
import { count, heading, open, settled, signIn, tabTo, tabToName } from './console_steps.mjs'

const { api } = settings

const press = async (page, ...keys) => {
  for (const key of keys) await page.keyboard.press(key)
}

/** Moves to an element by Tab, and presses it. */
async function use(page, name) {
  await tabToName(page, name)
  await press(page, 'Enter')
}

/** Moves to fields by Tab, and types. In a list of choices this selects the choice with this beginning. */
async function type(page, values, within = 'main') {
  for (const [name, text] of Object.entries(values)) {
    await tabTo(page, `${within} [name="${name}"]`)
    await page.keyboard.type(text)
  }
}

const DIALOG = '[role=dialog]'
const shows = (page, text) => page.getByText(text).first().waitFor()

/** Opens a page by the palette. */
async function goBy(page, text, title) {
  await press(page, 'Control+k')
  await page.waitForSelector('[role=dialog] input:focus')
  await page.keyboard.type(text)
  await page.getByRole('menuitem', { name: new RegExp(text, 'i') }).first().waitFor()
  await press(page, 'Enter')
  await heading(page, title)
  await settled(page)
}

async function home(page) {
  await press(page, 'g', 'h')
  await page.getByRole('heading', { name: 'First steps' }).waitFor()
  await settled(page)
}

async function step(page, name, title) {
  await home(page)
  await use(page, name)
  if (title) await heading(page, title)
  await settled(page)
}

/** Begins to edit the object of the page. */
async function edit(page) {
  await press(page, 'e')
  await page.waitForSelector('main form [name]')
}

/** Saves the changes, and waits for the object. */
async function save(page) {
  await press(page, 'Control+s')
  await page.getByRole('button', { name: 'Edit', exact: true }).waitFor()
  await shows(page, 'Saved.')
  await settled(page)
}

await journey('the first steps', async (page, tab) => {
  await open(page)
  await step(page, 'Enter a contact for questions', 'Company')
  await edit(page)
  await type(page, { admin_email_address: 'ask@example.com' })
  await save(page)

  await step(page, 'Set up mail and send a test', 'Mail')
  await edit(page)
  await type(page, {
    host: '127.0.0.1', username: 'sender', password: 'secret of the mail server', from_email: 'a@example.com',
    failure_email: 'b@example.com',
  })
  await save(page)
  await use(page, 'Send a test')
  await page.waitForSelector('text=The mail server could not be reached.')
  tab.isSilent('400')

  await step(page, 'Decide how people sign in', 'Sign-in rules')
  await edit(page)
  await tabTo(page, 'main [name$=min_length]')
  await press(page, 'Control+a')
  await page.keyboard.type('12')
  await save(page)

  await step(page, 'Add a second super admin', 'New user')
  await type(page, { username: 'second@example.com', account_type: 'Super', first_name: 'Second', last_name: 'Admin' })
  await press(page, 'Control+s')
  await heading(page, 'Second Admin')

  await step(page, 'Create a first record', 'All classes')
  await use(page, 'New class')
  await heading(page, 'New class')
  await settled(page)
  await type(page, { name: 'Order' })
  await press(page, 'Control+s')
  await heading(page, 'Order')
  await settled(page)
  for (const [label, kind] of [['Title', 'Short text'], ['Total', 'Decimal'], ['Due', 'Date']]) {
    await use(page, 'New field')
    await page.waitForSelector(`${DIALOG} [name=label]`)
    await type(page, { label, type: kind }, DIALOG)
    await press(page, 'Control+s')
    await page.waitForSelector(DIALOG, { state: 'detached' })
    await page.locator('main code', { hasText: label.toLowerCase() }).waitFor()
  }

  await step(page, 'Create a first record')
  await goBy(page, 'Go to Order', 'Order')
  await press(page, 'c')
  await page.waitForSelector('main [name=title]')
  await type(page, { title: 'The first', total: '7' })
  await press(page, 'Control+s')
  await heading(page, 'The first')

  await goBy(page, 'New integration', 'New integration')
  await tabToName(page, 'AI')
  await press(page, 'Space')
  await type(page, { name: 'Agents', redirect_uris: 'http://127.0.0.1/callback' })
  await press(page, 'Control+s')
  await heading(page, 'Agents')
  await step(page, 'Connect an AI agent', 'New connector')
  await type(page, { name: 'Assistant' })
  await tabToName(page, 'Integration')
  await Promise.all([page.waitForResponse(/name__icontains=Agents$/), page.keyboard.type('Agents')])
  await settled(page)
  await press(page, 'ArrowDown', 'Enter', 'Control+s')
  await page.waitForSelector('[role=alertdialog]')
  await use(page, 'I have stored it')
  await heading(page, 'Assistant')

  await home(page)
  for (const done of ['Enter a contact for questions', 'Add a second super admin', 'Create a class of records', 'Create a first record', 'Connect an AI agent'])
    await page.locator('main li', { hasText: done }).getByText('done').waitFor({ state: 'attached' })
})

await journey('signing in, finding a user, editing and saving', async (page, tab) => {
  count(page)
  await page.goto(`${api}/console/admin/roles`)
  await signIn(page)
  tab.isSilent('401')
  await heading(page, 'Roles')
  await press(page, 'g', 'u')
  await heading(page, 'Users')
  await page.waitForSelector('tbody tr')
  await press(page, '/')
  await page.keyboard.type('Second')
  await page.waitForFunction(() => document.querySelectorAll('tbody tr').length === 1)
  await use(page, 'Second Admin')
  await heading(page, 'Second Admin')
  await edit(page)
  await type(page, { job_title: 'Clerk' })
  await save(page)
  await shows(page, 'Clerk')
})

await journey('a role: an action also selects the actions that it requires', async (page) => {
  await open(page)
  await goBy(page, 'New role', 'New role')
  await type(page, { name: 'Made by keys' })
  const isTicked = (name) => page.getByRole('checkbox', { name }).isChecked()
  await tabToName(page, 'Users: Edit')
  await press(page, 'Space')
  for (const name of [/^Users: View/, /^Users: List/, /^Users: Edit/]) assert.ok(await isTicked(name), name)
  // A whole row at once, and back.
  await tabToName(page, 'Roles')
  await press(page, 'Enter')
  assert.ok(await isTicked(/^Roles: Delete/))
  await press(page, 'Enter')
  assert.ok(!(await isTicked(/^Roles: Delete/)))
  await press(page, 'Control+s')
  await heading(page, 'Made by keys')
})

await journey('the groups of a user', async (page) => {
  await open(page, '/admin/users/1')
  await shows(page, 'Not a member of any group.')
  for (const name of ['Registry', 'Archive']) {
    await goBy(page, 'New group', 'New group')
    await type(page, { name })
    await press(page, 'Control+s')
    await heading(page, name)
  }
  await press(page, 'g', 'u')
  await page.waitForSelector('tbody tr')
  await use(page, 'admin')
  for (const name of ['Registry', 'Archive']) {
    await tabToName(page, 'Add to a group')
    await Promise.all([page.waitForResponse(new RegExp(`text__icontains=${name}$`)), page.keyboard.type(name)])
    await settled(page)
    await press(page, 'ArrowDown', 'Enter')
  }
  await use(page, 'Add 2')
  await shows(page, 'Saved.')
  const groups = () => page.locator('main section', { hasText: 'Add to a group' }).getByRole('link').allInnerTexts()
  await settled(page)
  assert.deepEqual(await groups(), ['Archive', 'Registry'])
  await use(page, 'Remove from Archive')
  await shows(page, 'Removed from Archive.')
  await settled(page)
  assert.deepEqual(await groups(), ['Registry'])
  await use(page, 'Undo')
  await page.getByRole('button', { name: 'Remove from Archive' }).waitFor()
  await use(page, 'Archive')
  await heading(page, 'Archive')
  await page.getByRole('button', { name: /^Remove admin/ }).first().waitFor()
})

await journey('the designer of a class', async (page) => {
  await open(page)
  await goBy(page, 'Go to Classes', 'Classes')
  await page.waitForSelector('tbody tr')
  await use(page, 'Order')
  await page.waitForSelector('main code >> text=total')
  await use(page, 'Edit Total')
  await page.waitForSelector(`${DIALOG} [name=label]`)
  await tabTo(page, `${DIALOG} [name=label]`)
  await press(page, 'Control+a')
  await page.keyboard.type('Sum')
  await press(page, 'Control+s')
  await page.waitForSelector('strong >> text=Sum')
  await use(page, 'Move Sum up')
  await page.waitForFunction(() => {
    const aliases = [...document.querySelectorAll('main code')].map(({ textContent }) => textContent)
    return aliases.indexOf('total') < aliases.indexOf('title')
  })
  // The focus stays with the field.
  await tabToName(page, 'Move Sum down', 2)
  await use(page, 'Delete Due')
  await page.waitForSelector(DIALOG)
  await use(page, 'Delete')
  await page.waitForSelector('main code >> text=due', { state: 'detached' })
})

await journey('the designer of a form', async (page) => {
  await open(page, '/admin/classes/1')
  await page.waitForSelector('main code >> text=total')
  await use(page, 'New form')
  await heading(page, 'New form')
  await settled(page)
  await type(page, { name: 'By keys' })
  await use(page, 'New section')
  await use(page, 'Edit Section without a title')
  await page.waitForSelector(`${DIALOG} [name=title]`)
  await type(page, { title: 'The order' }, DIALOG)
  await press(page, 'Control+s')
  await page.waitForSelector('h3 >> text=The order')
  for (const label of ['Title', 'Sum']) {
    await tabToName(page, 'Add a field')
    await page.keyboard.type(label)
    await page.waitForSelector('[role=option]')
    await press(page, 'ArrowDown', 'Enter')
    await page.getByRole('button', { name: `Edit ${label}` }).waitFor()
  }
  await use(page, 'Move Sum up')
  await press(page, 'Control+s')
  await heading(page, 'By keys')
  await page.reload()
  await page.getByRole('button', { name: 'Edit Sum' }).waitFor()
  const items = await page.getByRole('list', { name: 'Items of The order' }).innerText()
  assert.ok(items.indexOf('Sum') < items.indexOf('Title'), items)
})

/** Edits a record, and opens the calendar of a field. */
async function calendar(page, field) {
  await tabTo(page, `main [name=${field}]`)
  await press(page, 'Alt+ArrowDown')
  await page.waitForSelector(`${DIALOG} [role=gridcell] :focus`)
}

// The language is the console's and the zone is the account's, not the browser's.
await journey('a date and a date with a time, typed and chosen', async (page, tab) => {
  const call = async (method, path, body, token) => {
    const headers = { 'Content-Type': 'application/json', ...(token && { Authorization: `Bearer ${token}` }) }
    return (await fetch(`${api}${path}`, { method, headers, body: body && JSON.stringify(body) })).json()
  }
  const { username, password } = settings
  const { access_token: token } = await call('POST', '/api/auth/login/', { username, password })
  await call('PATCH', '/api/users/me/', { timezone: 'Europe/Zurich' }, token)
  const { id } = await call('POST', '/api/object-classes/', { name: 'Visit' }, token)
  for (const [label, type] of [['Day', 'date'], ['At', 'datetime']])
    await call('POST', `/api/object-classes/${id}/fields/`, { label, type }, token)
  const is = async (day, at) => {
    const { results } = await call('GET', `/api/object-classes/${id}/object-records/`, undefined, token)
    const [{ fields }] = results
    assert.deepEqual([fields.day, fields.at && new Date(fields.at).toISOString()], [day, at])
  }

  const change = async () => {
    await press(page, 'e')
    await page.waitForSelector('main [name=at]')
  }

  await open(page, '/records/visit/new')
  await page.waitForSelector('main [name=at]')
  await shows(page, 'Time in Europe/Zurich')
  await tabTo(page, 'main [name=day]')
  // This day does not exist. The form is not sent, and the text remains.
  await page.keyboard.type('31022026')
  await press(page, 'Control+s')
  await use(page, 'Day: This day does not exist.')
  await page.waitForSelector('main [name=day]:focus')
  await press(page, 'Control+a')
  await page.keyboard.type('28022026')
  await tabTo(page, 'main [name=at]')
  await page.keyboard.type('280620261430')
  await press(page, 'Control+s')
  await page.getByRole('button', { name: 'Edit', exact: true }).waitFor()
  await is('2026-02-28', '2026-06-28T12:30:00.000Z')

  await change()
  await calendar(page, 'day')
  await press(page, 'ArrowDown', 'Enter')
  await page.waitForSelector(DIALOG, { state: 'detached' })
  await page.waitForSelector('[data-field=day] :focus')
  await calendar(page, 'at')
  // Escape closes the calendar alone.
  await press(page, 'ArrowDown', 'Escape')
  await page.waitForSelector(DIALOG, { state: 'detached' })
  await page.waitForSelector('[data-field=at] :focus')
  await press(page, 'Alt+ArrowDown')
  await page.waitForSelector(`${DIALOG} [role=gridcell] :focus`)
  // In another month the clocks are changed, and it is half past two all the same.
  await press(page, ...Array(6).fill('PageUp'), 'Enter')
  await page.waitForSelector(DIALOG, { state: 'detached' })
  await save(page)
  await is('2026-03-07', '2025-12-28T13:30:00.000Z')

  await change()
  await tabTo(page, 'main [name=at]')
  await press(page, 'End', ...Array(5).fill('Backspace'), 'Control+s')
  await shows(page, 'Enter the date and the time, such as 31/12/2026, 14:30, or clear both.')
  await use(page, 'At: Enter')
  await page.waitForSelector('main [name=at]:focus')
  await tab.isAccessible('half a date')
  await press(page, 'Control+a', 'Backspace')
  await calendar(page, 'day')
  await use(page, 'Clear')
  await page.waitForSelector(DIALOG, { state: 'detached' })
  await save(page)
  await is(null, null)
  tab.isSilent()
}, { locale: 'de-DE', timezoneId: 'Asia/Tokyo' })

await journey('an import', async (page) => {
  await open(page)
  await goBy(page, 'Go to Order', 'Order')
  await use(page, 'More of Order')
  await page.waitForSelector('[role=menuitem]')
  await page.keyboard.type('Imp')
  await press(page, 'Enter')
  await heading(page, 'Import into Order')
  await settled(page)
  // A browser without a window does not always ask at the first time.
  let chooser
  for (let n = 0; n < 3 && !chooser; n++) {
    await tabTo(page, 'input[type=file]')
    const opening = page.waitForEvent('filechooser', { timeout: 5000 }).catch(() => undefined)
    await press(page, 'Enter')
    chooser = await opening
  }
  assert.ok(chooser, 'no file is asked for')
  const buffer = Buffer.from('Title;Sum\nOne;1,5\nTwo;x\n')
  await chooser.setFiles({ name: 'orders.csv', mimeType: 'text/csv', buffer })
  await shows(page, '2 rows with 2 columns.')
  await use(page, 'Check all rows')
  await shows(page, 'One row would be refused.')
  await use(page, 'Import one row')
  await shows(page, 'One record was created')
})

await end()
