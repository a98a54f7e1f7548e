// A custom component in a sandboxed frame and in a frame without a sandbox: its script runs, and reaches nothing of those who
// see it. As a page of its own it is refused.

import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { end, journey, settings } from './browser.mjs'

const { api, index, token } = settings

// The findings of the component's script. They are the same on every page.
const expected = {
  origin: 'null',
  module: 'loaded',
  style: 'rgb(1, 2, 3)',
  cookie: 'SecurityError',
  setCookie: 'SecurityError',
  localStorage: 'SecurityError',
  sessionStorage: 'SecurityError',
  indexedDB: 'SecurityError',
  caches: 'SecurityError',
  serviceWorker: 'refused',
  parent: 'SecurityError',
  api: 'TypeError',
  apiWithCookies: 'TypeError',
  signIn: 'TypeError',
  popup: 'none',
  form: 'not sent',
}

// The cookies and the storage of the server's own origin, which the component must not reach.
const fill = async (page) => {
  await page.goto(`${api}/sign-in/`)
  await page.context().addCookies([
    { name: 'session', value: 'of somebody', url: api },
    { name: 'hidden', value: 'of somebody', url: api, httpOnly: true, sameSite: 'Lax' },
  ])
  await page.evaluate((token) => localStorage.setItem('token', token), token)
}

const findsTheSame = async (frame, name) => {
  await frame.waitForFunction(() => document.title === 'done', null, { polling: 100 })
  assert.deepEqual(JSON.parse(await frame.locator('#found').innerText()), expected, name)
}

// The browser's console reports each refusal.
const silence = (tab) => tab.console.splice(0)


const SANDBOXES = ['sandbox="allow-scripts"', '', 'sandbox="allow-scripts allow-same-origin allow-forms allow-popups"']

// The state of a front end.
const front = (sandbox) => `<h1>Front end</h1><iframe ${sandbox} src="${index}"></iframe>`

const framed = async (page, name) => {
  const frame = page.frames().find((frame) => frame !== page.mainFrame())
  await findsTheSame(frame, name)
}

// A front end at the server's own origin, which is the worst case. Its page is a substitute: a proxy would serve it.
await journey('in a frame of the same origin', async (page, tab) => {
  await fill(page)
  for (const sandbox of SANDBOXES) {
    await page.route(`${api}/front-end/`, (route) => route.fulfill({ contentType: 'text/html', body: front(sandbox) }))
    await page.goto(`${api}/front-end/`)
    await framed(page, `same origin, ${sandbox}`)
    await page.unroute(`${api}/front-end/`)
  }
  silence(tab)
})

await journey('in a frame of another origin', async (page, tab) => {
  await fill(page)
  const other = createServer((request, response) => {
    response.setHeader('Content-Type', 'text/html')
    response.end(front(SANDBOXES[Number(request.url.slice(1))] ?? ''))
  }).listen(0, '127.0.0.1')
  await new Promise((resolve) => other.once('listening', resolve))
  for (const n of SANDBOXES.keys()) {
    await page.goto(`http://127.0.0.1:${other.address().port}/${n}`)
    await framed(page, `another origin, ${SANDBOXES[n]}`)
  }
  other.closeAllConnections()
  other.close()
  silence(tab)
})

// After the frames, because the browser caches their files.
await journey('as a page of its own it is refused', async (page, tab) => {
  await page.route(`${api}/front-end/`, (route) => route.fulfill({ contentType: 'text/html', body: front(SANDBOXES[0]) }))
  await page.goto(`${api}/front-end/`)
  await framed(page, 'a frame')
  for (const file of [index, index.replace('index.html', 'app.js')]) assert.equal((await page.goto(file)).status(), 403)
  silence(tab)
})

await end()
