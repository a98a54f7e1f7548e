// Every screen of the console with its dialogs and menus, in every look: axe-core finds nothing, the browser's console is
// silent, and texts of users remain texts. The console's router lists the screens.

import assert from 'node:assert/strict'
import { end, everyWidth, journey, settings } from './browser.mjs'
import { go, open, settled } from './console_steps.mjs'

const { api, texts, form, agents, webhook } = settings

/** The addresses of a route that has parameters. */
const WITH_PARAMETERS = {
  '/admin/authentication-objects/$id': ['new', '1'],
  '/admin/classes/$id': ['new', '1', '2'],
  '/admin/classes/$id/forms/$uuid': ['2/forms/new', `2/forms/${form}`],
  '/admin/classes/$id/templates': ['2/templates'],
  '/admin/components/$id': ['new', '1'],
  '/admin/connectors/$id': ['new', '1'],
  '/admin/groups/$id': ['new', '1'],
  '/admin/integrations/$id': ['new', agents, webhook],
  '/admin/interface/$part': ['home', 'lists?class=2', 'records?class=2', 'theme'],
  '/admin/roles/$id': ['new', '1'],
  '/admin/single-sign-on/$id': ['new', '1'],
  '/admin/task-templates/$id': ['new', '1', '2'],
  '/admin/users/$id': ['new', '2', '32'],
  '/forms/$uuid': [form],
  '/records/$alias': ['order'],
  '/records/$alias/$id': ['order/2', 'order/3'],
  '/records/$alias/deleted': ['order/deleted'],
  '/records/$alias/import': ['order/import'],
  '/records/$alias/new': ['order/new?all=', `order/new?form=${form}`],
  '/tasks/$id': ['1', '2', '4'],
}

/** The screen to which the address of a record leads that does not know its class. */
const LED_ON = '/records/-/$id'

/** A window that a sign-in ends in closes itself. */
const CLOSES = '/signed-in'

const MORE = ['/search?text=img', '/nowhere', '/records/order?ordering=-title&total__gte=2&limit=25', '/tasks/all?status=completed']

function addressesOf(route) {
  if (!route.includes('$')) return [route]
  const endings = WITH_PARAMETERS[route]
  assert.ok(endings, `${route} is a screen that nobody looks at: name an address of it`)
  return endings.map((ending) => `${route.slice(0, route.indexOf('$'))}${ending}`)
}

const shownTexts = new Set()

/** Texts of users never become elements. All texts of the page are recorded. */
async function isText(page, what) {
  const { ran, elements, shown } = await page.evaluate(() => ({
    ran: globalThis.ran,
    elements: document.querySelectorAll('img[src="x"], main script').length,
    shown: [
      document.body.textContent,
      ...[...document.querySelectorAll('input, textarea')].map(({ value }) => value),
      ...[...document.querySelectorAll('[title], [aria-label]')].flatMap(({ title, ariaLabel }) => [title, ariaLabel]),
    ].join('\n'),
  }))
  assert.equal(ran, undefined, `${what}: a script ran`)
  assert.equal(elements, 0, `${what}: a text became an element`)
  for (const text of texts) if (shown.includes(text)) shownTexts.add(text)
}

async function look(page, tab, what) {
  await isText(page, what)
  await tab.isAccessible(what)
  tab.isSilent()
}

await journey('every screen', async (page, tab) => {
  page.on('dialog', (dialog) => assert.fail(`a script ran: ${dialog.message()}`))
  await open(page)
  const routes = await page.evaluate(() => Object.keys(globalThis.__TSR_ROUTER__.routesByPath))
  const screens = routes.filter((route) => route !== LED_ON && route !== CLOSES)
  assert.deepEqual(Object.keys(WITH_PARAMETERS).filter((route) => !screens.includes(route)), [], 'no screens')
  const addresses = [...screens.flatMap(addressesOf), ...MORE]
  for (const path of addresses) {
    await go(page, path)
    assert.equal(await page.locator('main h1').count(), 1, path)
    const isMissing = (await page.locator('main h1').textContent()) === 'Page not found'
    assert.equal(isMissing, path === '/nowhere', path)
    // Folded parts are checked unfolded.
    await page.evaluate(() => document.querySelectorAll('main details:not([open]) > summary').forEach((one) => one.click()))
    await settled(page)
    await look(page, tab, path)
    if (await page.locator(`main a[href="/console${path}/new"]`).count())
      assert.ok(addresses.some((address) => address.split('?')[0] === `${path}/new`), `${path}/new`)
    const edit = page.locator('main').getByRole('button', { name: 'Edit', exact: true }).first()
    if (!(await edit.isVisible())) continue
    await edit.click()
    await page.waitForSelector('main form, [role=dialog] form')
    await settled(page)
    await look(page, tab, `${path}, edited`)
    await page.keyboard.press('Escape')
  }
  await page.goto(`${api}/console/records/-/2`)
  await page.waitForURL(`${api}/console/records/order/2`)
  await go(page, CLOSES)
  tab.isSilent('Scripts may close only the windows that were opened by them.')
  await look(page, tab, CLOSES)
}, everyWidth)

const key = (keys) => (page) => page.keyboard.press(keys)
const type = (text) => (page) => page.keyboard.type(text)
const press = (name) => (page) => page.getByRole('button', { name, exact: typeof name === 'string' }).first().click()
const choose = (name) => (page) => page.getByRole('menuitem', { name }).first().click()
const tick = (name) => (page) => page.getByRole('checkbox', { name }).first().check()
const DIALOG = '[role=dialog], [role=alertdialog]'
const ROW = /^Select (?!all)/
const quoted = `"${texts[0].replaceAll('"', '""')}"`
const rows = (page) => page.setInputFiles('input[type=file]', {
  name: `${texts[0]}.csv`,
  mimeType: 'text/csv',
  buffer: Buffer.from(`Title;Total;${quoted}\n${quoted};1;x\nTwo;x;y\n`),
})

/**
 * Dialogs and menus of the screens: the address, the steps, and the selector of the result if it is neither dialog nor menu.
 */
const OPENED = {
  'the palette': ['/', key('Control+k'), '[role=menuitem]'],
  'what the palette finds': ['/', key('Control+k'), type('img'), '[role=menuitem]'],
  'the shortcuts': ['/', key('?')],
  'the menu of the account': ['/', press(/^Account of/)],
  'the columns to filter by': ['/records/order', key('f')],
  'a filter': ['/records/order', key('f'), choose('Kind'), '[role=dialog] form'],
  'a filter by a date': ['/records/order', key('f'), choose('Due'), '[role=dialog] form [name=value]'],
  'a date that is edited': ['/records/order/3', key('e'), press(/^Calendar Due/), '[role=dialog] [role=grid]'],
  'a filter that stands': ['/records/order?total__gte=2&title__icontains=img', press(/^Total/), '[role=dialog] form'],
  'views': ['/admin/users', key('v'), '[role=dialog] li'],
  'columns': ['/admin/users', press('Columns')],
  'selected users': ['/admin/users', tick(ROW), 'tr[aria-selected=true]'],
  'deleting groups': ['/admin/groups', tick(ROW), press('Delete')],
  'what is done with a user': ['/admin/users/2', press('Actions')],
  'deleting a role': ['/admin/roles/1', press('Actions'), choose('Delete'), DIALOG],
  'more of a class': ['/records/order', press(/^More of/)],
  'selected records': ['/records/order', tick(ROW), 'tr[aria-selected=true]'],
  'editing records': ['/records/order', tick(ROW), press('Edit a field')],
  'an owner of records': ['/records/order', tick(ROW), press('Change owner')],
  'a task for records': ['/records/order', tick(ROW), press('Start a task')],
  'deleting records': ['/records/order', tick(ROW), press('Delete')],
  'an owner': ['/records/order/2', press('Change owner'), 'text=Without a choice, the record has no owner.'],
  'a task for a record': ['/records/order/2', press('Start a task')],
  'a document': ['/records/order/2', press('Generate')],
  'rows that are read': ['/records/order/import', rows, 'text=2 rows with 3 columns.'],
  'rows that are checked': ['/records/order/import', rows, press('Check all rows'), 'text=/would be (created|refused)/'],
  'a new field': ['/admin/classes/2', press('New field')],
  'a field': ['/admin/classes/2', press('Edit Kind')],
  'deleting a field': ['/admin/classes/2', press('Delete Kind')],
  'a set of a class': ['/admin/classes/2', press('New permission set')],
  'a set for a record': ['/admin/classes/2', press('New record permission set')],
  'a set of a group': ['/admin/groups/1', press('New permission set')],
  'a document template': ['/admin/classes/2/templates', press(/^Edit /)],
  'deleting a document template': ['/admin/classes/2/templates', press(/^Delete /)],
  'a section': [`/admin/classes/2/forms/${form}`, press(/^Edit .*section title$/)],
  'an item': [`/admin/classes/2/forms/${form}`, press(/^Edit .*item label$/)],
  'the JSON of a form': [`/admin/classes/2/forms/${form}`, press('JSON'), 'aside [name=configuration]'],
  'a task to make': ['/tasks', press('New task')],
  'steps of a task': ['/tasks/1', press('Actions')],
  'a task that is edited': ['/tasks/1', key('e'), 'main form [name=name]'],
  'cancelling a task': ['/tasks/1', press('Actions'), choose('Cancel the task'), DIALOG],
  'moving a task': ['/tasks/board', press(/^Actions of/)],
}

await journey('dialogs and menus of the screens', async (page, tab) => {
  page.on('dialog', (dialog) => assert.fail(`a script ran: ${dialog.message()}`))
  await open(page)
  for (const [what, [path, ...steps]] of Object.entries(OPENED)) {
    await go(page, path)
    const shown = typeof steps.at(-1) === 'string' ? steps.pop() : `${DIALOG}, [role=menu]`
    const open = async () => {
      for (const step of steps) await step(page)
      await page.waitForSelector(shown)
    }
    await open().catch((error) => assert.fail(`${what}: ${error.stack}`))
    await settled(page)
    await look(page, tab, what)
    await page.keyboard.press('Escape')
    await go(page, '/nowhere')
  }
}, everyWidth)

if (!process.env.JOURNEY) assert.deepEqual(texts.filter((text) => !shownTexts.has(text)), [], 'nobody looks at these texts')

await end()
