// A custom component in the console: only its value, its errors and its height arrive.

import assert from 'node:assert/strict'
import { end, everyWidth, journey, settings } from './browser.mjs'
import { heading, open } from './console_steps.mjs'

const { api, component, silent, form } = settings
const where = `/admin/components/${component}`

// The findings of the component after it tried to reach its surroundings.
const FOUND = {
  cookie: 'SecurityError',
  storage: 'SecurityError',
  parentDocument: 'SecurityError',
  parentStorage: 'SecurityError',
  parentScript: 'SecurityError',
  parentAddress: 'SecurityError',
  token: 'TypeError',
  signOut: 'TypeError',
  me: 'TypeError',
  top: 'SecurityError',
  topLink: 'pressed',
  popup: 'null',
  dialog: 'undefined',
}

await journey('a component in the console', async (page, tab) => {
  page.on('dialog', (dialog) => assert.fail(`a script ran: ${dialog.message()}`))
  await open(page, where)
  const frame = page.locator('main iframe')
  assert.equal(await frame.getAttribute('sandbox'), 'allow-scripts')
  assert.ok((await frame.getAttribute('src')).startsWith('/components/'))
  await page.waitForFunction(() => document.querySelector('main iframe')?.getBoundingClientRect().height === 4000)
  await page.waitForFunction(() => document.querySelector('main iframe')?.getBoundingClientRect().height === 321)
  const { told, ports, found } = JSON.parse(await page.locator('main pre').last().innerText())
  assert.deepEqual(told, { use: 'landing_page', parameters: {}, value: null, record: null, fields: {}, locale: 'en-GB', theme: tab.name.includes('dark') ? 'dark' : 'light' })
  assert.equal(ports, 1)
  assert.deepEqual(found, FOUND)
  await tab.isAccessible('a component')
  // The address, the user and the session are unchanged.
  assert.equal(page.url(), `${api}/console${where}`)
  await page.keyboard.press('Escape')
  await heading(page, 'Components')
  await page.waitForSelector('tbody tr')
  assert.equal(await page.locator('[role=dialog], [role=alertdialog]').count(), 0)
  await page.reload()
  await heading(page, 'Components')
  // The browser reports each refusal.
  tab.console.splice(0)
}, everyWidth)

await journey('a component that goes elsewhere is closed', async (page, tab) => {
  await open(page, where)
  await page.frameLocator('main iframe').locator('#leave').click()
  await page.waitForSelector('text=This component opened another page and was closed.')
  assert.equal(await page.locator('main iframe').count(), 0)
  tab.console.splice(0)
})

await journey('a component beside a record gets the fields that its item names', async (page, tab) => {
  await open(page, '/records/berth/1')
  const body = page.frameLocator('main iframe').locator('body[data-told]')
  const { record, fields, parameters, use } = JSON.parse(await body.getAttribute('data-told'))
  assert.deepEqual({ record, fields, parameters, use }, { record: 1, fields: { place: 'Quay' }, parameters: { zoom: 3 }, use: 'object_class_summary_form' })
  tab.isSilent()
})

for (const way of ['flood', 'beside']) {
  await journey(`a component that sends without an end is closed: ${way}`, async (page, tab) => {
    await open(page, where)
    await page.frameLocator('main iframe').locator(`body[data-told] #${way}`).click()
    await page.waitForSelector('text=This component sent more messages than this page can handle')
    assert.equal(await page.locator('main iframe').count(), 0)
    // The page continues at once.
    const begun = Date.now()
    await page.keyboard.press('Escape')
    await heading(page, 'Components')
    assert.ok(Date.now() - begun < 3000, `${Date.now() - begun} ms`)
    tab.console.splice(0)
  })
}

await journey('a component that does not answer has a notice', async (page, tab) => {
  await open(page, `/admin/components/${silent}`)
  await page.waitForSelector('text=This component does not answer.')
  tab.console.splice(0)
})

await journey('a component that is switched off is not shown', async (page, tab) => {
  await open(page, where)
  await page.waitForSelector('main iframe')
  const turn = async () => {
    await page.getByRole('button', { name: 'Edit', exact: true }).click()
    await page.getByRole('checkbox', { name: 'Enabled' }).click()
    await page.keyboard.press('Control+s')
  }
  await turn()
  await page.waitForSelector('text=This component is disabled.')
  assert.equal(await page.locator('main iframe').count(), 0)
  await turn()
  await page.waitForSelector('main iframe')
  tab.console.splice(0)
})

await journey('a component fills in a field of a form', async (page, tab) => {
  await open(page, `/forms/${form}`)
  const frame = page.frameLocator('main iframe')
  await frame.locator('#wrong').click()
  await page.waitForSelector('text=Not <b>there</b>.')
  await page.getByRole('button', { name: 'Send' }).click()
  await page.waitForSelector('[role=alert]:has-text("There is a problem")')
  await frame.locator('#choose').click()
  await page.getByRole('button', { name: 'Send' }).click()
  await page.waitForSelector('text=Thank you.')
  tab.isSilent()
})

await end()
