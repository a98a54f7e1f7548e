// The console over much of everything: 500 classes, a class of 500 fields, 200 roles, 10,000 entries of history, long names that are
// written from right to left. Nothing breaks, and nothing is loaded as a whole.

import assert from 'node:assert/strict'
import { journey, settings } from './browser.mjs'
import { go, open } from './console_steps.mjs'

const { api, alias, record, person } = settings

/** A screen asks for few answers, and each of them is a page. */
const MOST_REQUESTS = 20
const MOST_ROWS = 100
const MOST_BYTES = 1_500_000

const screens = [
  '/',
  '/records',
  `/records/${alias}`,
  `/records/${alias}/new`,
  `/records/${alias}/${record}`,
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
  for (const path of screens) {
    answers = []
    await go(page, path)
    assert.notEqual(await page.locator('main h1').textContent(), 'There is nothing here', path)
    const asked = answers.map((answer) => answer.url().slice(api.length))
    assert.ok(asked.length <= MOST_REQUESTS, `${path} asks for\n${asked.join('\n')}`)
    for (const answer of answers) {
      const body = await answer.text().catch(() => '')
      assert.ok(body.length <= MOST_BYTES, `${path}: ${answer.url()} has ${body.length} bytes`)
      const { results } = body.startsWith('{') ? JSON.parse(body) : {}
      assert.ok(!results || results.length <= MOST_ROWS, `${path}: ${answer.url()} has ${results?.length} rows`)
    }
    await tab.isAccessible(path)
    tab.isSilent()
  }
}, { looks: [{ colorScheme: 'light', width: 1280 }, { colorScheme: 'dark', width: 320 }] })
