// What the journeys over the console share: signing in, going to a screen, pressing Tab.

import assert from 'node:assert/strict'
import { settings } from './browser.mjs'

const { api } = settings

/** Opens a screen as somebody who has just signed in: the administrator of the settings, unless another is named. */
export async function open(page, path = '/', { username, password } = settings) {
  count(page)
  await page.goto(`${api}/sign-in/?return_to=${encodeURIComponent(`/console${path}`)}`)
  await page.fill('[name=username]', username)
  await page.fill('[name=password]', password)
  await page.keyboard.press('Enter')
  await page.waitForURL(`${api}/console${path}`)
  await page.waitForSelector('main h1')
}

export const heading = (page, text) => page.waitForFunction((wanted) => document.querySelector('main h1')?.textContent === wanted, text)

/** Waits until nothing is asked for, and the page has stood still for a moment. */
export async function settled(page) {
  do {
    await page.evaluate(() => new Promise((resolve) => {
      let timer = setTimeout(resolve, 100)
      const seen = new MutationObserver(() => {
        clearTimeout(timer)
        timer = setTimeout(resolve, 100)
      })
      seen.observe(document, { subtree: true, childList: true, characterData: true })
    }))
  } while (page.waiting.size > 0)
}

/** Counts what a page asks for. */
function count(page) {
  page.waiting = new Set()
  page.on('request', (request) => page.waiting.add(request))
  for (const end of ['requestfinished', 'requestfailed']) page.on(end, (request) => page.waiting.delete(request))
}

/** Goes to another screen as a link does, without loading the console anew. */
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
export async function tabTo(page, selector, most = 80) {
  for (let n = 0; n < most; n++) {
    if (await page.evaluate((one) => document.activeElement?.matches(one) === true, selector)) return
    await page.keyboard.press('Tab')
  }
  assert.fail(`${selector} is not reached by Tab`)
}

/** Presses Tab until what has the focus is called so. */
export async function tabToName(page, name, most = 150) {
  for (let n = 0; n < most; n++) {
    const called = await page.evaluate(() => {
      const { activeElement: at } = document
      return at?.getAttribute('aria-label') ?? at?.textContent?.trim() ?? ''
    })
    if (called === name) return
    await page.keyboard.press('Tab')
  }
  assert.fail(`${name} is not reached by Tab`)
}
