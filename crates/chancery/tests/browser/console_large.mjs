// The console over much of everything: hundreds of classes, of fields (a hundred that choose) and of roles, thousands of entries
// of history, long names that are written from right to left. Nothing breaks, and nothing is loaded as a whole.

import assert from 'node:assert/strict'
import { end, everyWidth, journey, settings } from './browser.mjs'
import { go, open, settled } from './console_steps.mjs'

const { api, alias, record, wide, wideRecord, person } = settings

/** A screen sends few requests, and each answer is a page. */
const MOST_REQUESTS = 20
const MOST_ROWS = 100
const MOST_BYTES = 1_500_000

const screens = [
  '/',
  '/records',
  `/records/${alias}`,
  `/records/${alias}/new`,
  `/records/${alias}/${record}`,
  `/records/${wide}/new`,
  `/records/${wide}/${wideRecord}`,
  '/admin/classes',
  '/admin/classes/1',
  '/admin/roles',
  '/admin/roles/200',
  '/admin/users',
  `/admin/users/${person}`,
  '/admin/task-templates/new',
  '/admin/connectors/new',
]

await journey('a large build', async (page, tab) => {
  await open(page)
  let answers = []
  page.on('response', (response) => {
    if (response.url().startsWith(`${api}/api/`)) answers.push(response)
  })
  const isSmall = async (what) => {
    const asked = answers.map((answer) => answer.url().slice(api.length))
    assert.ok(asked.length <= MOST_REQUESTS, `${what} asks for\n${asked.join('\n')}`)
    for (const answer of answers) {
      const body = await answer.text().catch(() => '')
      assert.ok(body.length <= MOST_BYTES, `${what}: ${answer.url()} has ${body.length} bytes`)
      const { results } = body.startsWith('{') ? JSON.parse(body) : {}
      assert.ok(!results || results.length <= MOST_ROWS, `${what}: ${answer.url()} has ${results?.length} rows`)
    }
    await tab.isAccessible(what)
    tab.isSilent()
  }
  for (const path of screens) {
    answers = []
    await go(page, path)
    assert.notEqual(await page.locator('main h1').textContent(), 'Page not found', path)
    await isSmall(path)
    const edit = page.locator('main').getByRole('button', { name: 'Edit', exact: true }).first()
    if (!(await edit.isVisible())) continue
    answers = []
    await edit.click()
    await page.waitForSelector('main form')
    await settled(page)
    await isSmall(`${path}, edited`)
  }
}, everyWidth)

await end()
