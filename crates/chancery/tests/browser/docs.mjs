// The pages of the descriptions of both services.

import assert from 'node:assert/strict'
import { end, everyWidth, journey, settings } from './browser.mjs'

const { api, history, username, token, apiKey, clientId } = settings

/** Opens a service's page, that of the history service from its start. The main API leads people to the console there. */
async function open(page, service) {
  await page.goto(service === api ? `${api}/api/docs/` : `${service}/`)
  await page.waitForSelector('.opblock-tag')
  assert.equal(page.url(), `${service}/api/docs/`)
}

/** The operations that a search finds, as method and path. */
async function search(page, phrase) {
  await page.getByRole('search').getByRole('textbox').fill(phrase)
  // The list updates a moment after the last key.
  await page.waitForTimeout(500)
  const closed = await page.locator('.opblock-tag[data-is-open=false]').evaluateAll((all) => all.map(({ id }) => id))
  for (const id of closed) {
    await page.click(`[id="${id}"]`)
    await page.waitForSelector(`[id="${id}"][data-is-open=true]`)
  }
  return page.locator('.opblock-summary-control').evaluateAll((all) => all.map((operation) => {
    const path = operation.querySelector('.opblock-summary-path').dataset.path
    return `${operation.querySelector('.opblock-summary-method').textContent} ${path}`
  }))
}

/** Types credentials in the dialog: the value of each scheme by a word in its description. */
async function authorize(page, values, check) {
  await page.locator('.btn.authorize').first().click()
  const dialog = page.getByRole('dialog')
  await check?.()
  for (const [word, value] of Object.entries(values)) {
    const scheme = dialog.locator('.auth-container').filter({ hasText: word }).first()
    await scheme.locator('input').fill(value)
    await scheme.getByRole('button', { name: 'Authorize' }).click()
  }
  await dialog.locator('.close-modal').click()
}

/** Finds a GET, tries it out, and answers with the status and body that the page shows. */
async function tryOut(page, path) {
  assert.ok((await search(page, `get ${path}`)).includes(`GET ${path}`))
  await page.locator(`.opblock-get .opblock-summary-path[data-path="${path}"]`).click()
  await page.getByRole('button', { name: 'Try it out' }).click()
  await page.getByRole('button', { name: 'Execute' }).click()
  const answer = page.locator('.live-responses-table')
  await answer.waitFor()
  const status = await answer.locator('tbody .response-col_status').first().innerText()
  return { status: Number.parseInt(status), body: await answer.locator('pre').first().innerText() }
}

/** Every request went to the service, and only its API got a credential. */
async function staysAtHome(tab, service) {
  for (const request of tab.requests) {
    const address = new URL(request.url())
    if (address.protocol === 'data:') continue
    assert.equal(address.origin, service, `${tab.name}: a request left`)
    const headers = await request.allHeaders()
    if (headers.authorization || headers['x-api-key']) assert.ok(tab.tried.includes(address.pathname), address.pathname)
  }
}

await journey('the page of the main API', async (page, tab) => {
  await open(page, api)
  await tab.isAccessible('as it opens')
  await search(page, 'get /api/users/me/')
  await page.locator('.opblock-summary-control').first().click()
  await page.waitForSelector('.responses-wrapper')
  await tab.isAccessible('an operation')
  await authorize(page, {}, () => tab.isAccessible('the dialog to sign in'))
  await search(page, 'create role')
  await page.locator('.opblock-summary-control').first().click()
  await tab.isAccessible('an operation with a body')
}, everyWidth)

await journey('searching the main API', async (page) => {
  await open(page, api)
  const groups = await page.locator('.opblock-tag').count()
  assert.deepEqual(await search(page, 'activation link'), [
    'POST /api/users/{id}/send-activation-link/',
    'POST /api/users/{id}/activation-link/',
  ])
  assert.deepEqual(await search(page, 'POST role'), ['POST /api/roles/'])
  assert.deepEqual(await search(page, 'nothing has this'), [])
  await page.getByRole('search').getByRole('textbox').fill('')
  await page.waitForFunction((count) => document.querySelectorAll('.opblock-tag').length === count, groups)
})

await journey('trying out the main API', async (page, tab) => {
  tab.tried = ['/api/users/me/', '/api/openapi.json']
  await open(page, api)
  await authorize(page, { Authorization: `JWT ${token}` })
  const { status, body } = await tryOut(page, '/api/users/me/')
  assert.equal(status, 200, body)
  assert.equal(JSON.parse(body).username, username)
  await tab.isAccessible('an answer')
  await staysAtHome(tab, api)
})

await journey('the page of the history service', async (page, tab) => {
  await open(page, history)
  await tab.isAccessible('as it opens')
  assert.ok((await search(page, 'list of system')).includes('GET /api/system-events'))
  await page.locator('.opblock-summary-control').first().click()
  await page.waitForSelector('.responses-wrapper')
  await tab.isAccessible('an operation')
}, everyWidth)

await journey('trying out the history service', async (page, tab) => {
  tab.tried = ['/api/system-events', '/api/openapi.json']
  await open(page, history)
  await authorize(page, { 'x-api-key': apiKey, 'x-client-id': clientId })
  const { status, body } = await tryOut(page, '/api/system-events')
  assert.equal(status, 200, body)
  assert.ok(JSON.parse(body).results.length > 0, body)
  await staysAtHome(tab, history)
})

await end()
