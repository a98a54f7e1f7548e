// Attacks on a session by other sites, other servers of the same host, frames and links.

import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { end, journey, settings } from './browser.mjs'
import { open, signIn } from './console_steps.mjs'

const { api, username, password } = settings

const OPEN_TO_FORGERY = ['/sign-in/', '/sign-in/single-sign-on/', '/api/auth/browser/token/', '/api/auth/browser/logout/']

// Another server of the same host: for cookies this is the same site. For `localhost` it is another one.
let shown = ''
const other = createServer((_request, response) => {
  response.setHeader('Content-Type', 'text/html')
  response.end(`<!doctype html><title>Other</title><link rel="icon" href="data:,">${shown}`)
}).listen(0, '127.0.0.1')
await new Promise((resolve) => other.once('listening', resolve))
const SAME_SITE = `http://127.0.0.1:${other.address().port}/`
const OTHER_SITE = `http://localhost:${other.address().port}/`

const formTo = (path, target = '') => `<form method="post" action="${api}${path}" ${target}>
  <input name="username" value="${username}"><input name="password" value="${password}"><input name="id" value="1"></form>`

/** The answers of the server to posts of a page, by their paths. */
function answersTo(page) {
  const answers = []
  page.on('response', (response) => {
    if (response.request().method() === 'POST') answers.push([new URL(response.url()).pathname, response.status()])
  })
  return answers
}

const sessionOf = async (page) => (await page.context().cookies()).find(({ name }) => name === 'chancery')?.value

/** The session is unchanged, and a script cannot read it. */
async function stands(page, before) {
  assert.equal(await sessionOf(page), before)
  await page.reload()
  await page.waitForSelector('main h1')
  const readable = await page.evaluate(() => JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }]))
  assert.ok(!/chancery=|eyJ/.test(readable), readable)
}

for (const from of [SAME_SITE, OTHER_SITE]) {
  const site = from === SAME_SITE ? 'another port of the same host' : 'another site'

  await journey(`requests of ${site}`, async (page) => {
    await open(page)
    const session = await sessionOf(page)
    assert.ok(session)
    shown = ''
    const forger = await page.context().newPage()
    await forger.goto(from)
    const answers = answersTo(forger)
    for (const path of OPEN_TO_FORGERY) {
      const ask = (mode) => forger.evaluate(
        ([url, how]) => fetch(url, { method: 'POST', credentials: 'include', mode: how }).then(({ type }) => type, () => 'refused'),
        [api + path, mode],
      )
      // Some browsers do not send requests to a machine's own addresses.
      assert.ok(['opaque', 'refused'].includes(await ask('no-cors')), path)
      assert.equal(await ask('cors'), 'refused', path)
    }
    if (from === SAME_SITE) assert.ok(answers.length >= OPEN_TO_FORGERY.length, `only these were sent: ${answers}`)
    for (const [path, status] of answers) assert.equal(status, 403, path)
    await stands(page, session)
  })

  await journey(`forms of ${site}`, async (page) => {
    await open(page)
    const session = await sessionOf(page)
    const forger = await page.context().newPage()
    const answers = answersTo(forger)
    for (const path of OPEN_TO_FORGERY) {
      shown = formTo(path)
      await forger.goto(from)
      await Promise.all([forger.waitForURL(api + path), forger.evaluate(() => document.forms[0].submit())])
      assert.deepEqual(answers.splice(0), [[path, 403]])
    }
    await stands(page, session)
  })

  await journey(`frames in ${site}`, async (page) => {
    await open(page)
    const session = await sessionOf(page)
    const forger = await page.context().newPage()
    for (const path of ['/console/', '/sign-in/', '/console/admin/users']) {
      shown = `<iframe src="${api}${path}"></iframe>`
      const [failed] = await Promise.all([forger.waitForEvent('requestfailed'), forger.goto(from)])
      assert.equal(failed.failure().errorText, 'net::ERR_BLOCKED_BY_RESPONSE', path)
      assert.ok(!forger.frames().some((frame) => frame.url().startsWith(api)), `${path} is shown in a frame`)
    }
    await stands(page, session)
  })
}

await journey('a sandboxed frame, whose origin is none', async (page) => {
  await open(page)
  const session = await sessionOf(page)
  const forger = await page.context().newPage()
  const answers = answersTo(forger)
  for (const path of OPEN_TO_FORGERY) {
    const framed = (inner) => `<iframe sandbox="allow-scripts allow-forms" srcdoc="${inner.replaceAll('&', '&amp;').replaceAll('"', '&quot;')}"></iframe>`
    shown = [
      framed(`${formTo(path)}<script>document.forms[0].submit()</script>`),
      framed(`<script>fetch("${api}${path}", { method: "POST", credentials: "include", mode: "no-cors" })</script>`),
    ].join('')
    await forger.goto(SAME_SITE)
    await forger.waitForTimeout(500)
    // A browser may keep them from a machine's own addresses.
    for (const one of answers.splice(0)) assert.deepEqual(one, [path, 403])
  }
  await stands(page, session)
})

await journey('a way back leads to the console alone', async (page) => {
  for (const to of ['//evil.example/', 'https://evil.example/', '/console/../api/docs/', '/console/%2e%2e/api/docs/', '/\\evil.example/', 'javascript:alert(1)']) {
    await page.goto(`${api}/sign-in/?return_to=${encodeURIComponent(to)}`)
    await signIn(page)
    await page.waitForURL(`${api}/console/`)
  }
})

other.closeAllConnections()
other.close()
await end()
