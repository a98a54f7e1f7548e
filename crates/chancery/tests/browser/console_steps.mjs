// Steps that the journeys of the console share: signing in, going to a screen, pressing Tab.

import assert from 'node:assert/strict'
import { settings } from './browser.mjs'

const { api } = settings

/** Opens a screen after a sign-in, as the administrator of the settings unless another user is given. */
export async function open(page, path = '/', who = settings) {
  count(page)
  await page.goto(`${api}/sign-in/?return_to=${encodeURIComponent(`/console${path}`)}`)
  await signIn(page, who)
  await page.waitForURL(`${api}/console${path}`)
  await page.waitForSelector('main h1')
}

export const heading = (page, text) => page.waitForFunction((wanted) => document.querySelector('main h1')?.textContent === wanted, text)

/** Waits until all requests are answered and the page has not changed for a moment. */
export async function settled(page) {
  const end = Date.now() + 20_000
  do {
    await page.evaluate(() => new Promise((resolve) => {
      let timer = setTimeout(resolve, 100)
      const observer = new MutationObserver(() => {
        clearTimeout(timer)
        timer = setTimeout(resolve, 100)
      })
      observer.observe(document, { subtree: true, childList: true, characterData: true })
    }))
    const urls = [...page.waiting].map((request) => request.url())
    assert.ok(Date.now() < end, `the page does not settle: ${urls.join(', ')}`)
  } while (page.waiting.size > 0)
}

/** Counts the open requests of a page. Requests of a former page do not count. */
export function count(page) {
  page.waiting = new Set()
  page.on('request', (request) => {
    if (request.isNavigationRequest() && request.frame() === page.mainFrame()) page.waiting.clear()
    page.waiting.add(request)
  })
  for (const end of ['requestfinished', 'requestfailed']) page.on(end, (request) => page.waiting.delete(request))
  // An answer that is not read to its end has no other event.
  page.on('response', (response) => response.ok() || page.waiting.delete(response.request()))
}

/** Goes to another screen like a link, without a reload of the console. */
export async function go(page, path) {
  await page.evaluate((to) => {
    history.pushState({}, '', `/console${to}`)
    dispatchEvent(new PopStateEvent('popstate', { state: {} }))
  }, path)
  await page.waitForFunction((to) => location.pathname + location.search === `/console${to}`, path)
  await settled(page)
  await page.waitForSelector('main h1')
}

/** Presses Tab until something has the focus. */
export async function tabTo(page, selector, most = 150) {
  for (let n = 0; n < most; n++) {
    if (await page.evaluate((one) => document.activeElement?.matches(one) === true, selector)) return
    await page.keyboard.press('Tab')
  }
  assert.fail(`${selector} is not reached by Tab`)
}

/** Presses Tab until the name of the focused element begins with `name`. */
export async function tabToName(page, name, most = 250) {
  const names = []
  for (let n = 0; n < most; n++) {
    const called = await page.evaluate(() => {
      const { activeElement: at } = document
      return at?.getAttribute('aria-label') ?? (at?.labels?.[0] ?? at)?.textContent?.trim() ?? ''
    })
    if (called.startsWith(name)) return
    names.push(called.slice(0, 30))
    await page.keyboard.press('Tab')
  }
  assert.fail(`${name} is not reached by Tab, which leads over ${names.slice(0, 60).join(' | ')}`)
}

/** Signs in on the page that is open, by keyboard alone. */
export async function signIn(page, { username, password } = settings) {
  await page.waitForSelector('[name=username]:focus')
  await page.keyboard.type(username)
  await page.keyboard.press('Tab')
  await page.keyboard.type(password)
  await page.keyboard.press('Enter')
}
