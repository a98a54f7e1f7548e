// The console with large text, in forced colours and without motion; its theme; and the size of its first list.

import assert from 'node:assert/strict'
import { gzipSync } from 'node:zlib'
import { end, journey, settings } from './browser.mjs'
import { go, open, settled } from './console_steps.mjs'

const { api, form } = settings

await journey('the size of the first list', async (page) => {
  await open(page)
  const files = []
  page.on('response', (response) => {
    if (response.url().includes('/console/assets/')) files.push(response)
  })
  const fresh = await page.context().newPage()
  fresh.on('response', (response) => {
    if (response.url().includes('/console/assets/')) files.push(response)
  })
  await fresh.goto(`${api}/console/admin/users`)
  await fresh.waitForSelector('tbody tr')
  const sizes = await Promise.all(files.map(async (file) => [file.url().split('/').at(-1), gzipSync(await file.body(), { level: 9 }).length]))
  const sum = sizes.reduce((all, [, size]) => all + size, 0)
  assert.ok(sum <= 160 * 1024 && sizes.length <= 8, `${sum} bytes: ${JSON.stringify(sizes)}`)
})

await journey('the theme is that of the account, and nothing flashes', async (page) => {
  await open(page, '/me')
  await page.getByRole('radio', { name: 'Dark' }).check()
  await page.waitForFunction(() => document.documentElement.dataset.theme === 'dark')
  await settled(page)
  const shell = await page.request.get(`${api}/console/`)
  assert.match(await shell.text(), /data-theme="dark"/)
  await page.getByRole('radio', { name: 'As the device' }).check()
  await settled(page)
})

const MAIN = ['/', '/admin/users', '/admin/users/32', '/admin/users/new', '/admin/roles/new', '/records/order', '/records/order/2', '/admin/classes/2', '/tasks/board', '/tasks/1']

/** The pages that are checked in the smallest window with large text. */
const NARROW = [
  ...MAIN, '/admin/groups/1', '/admin/roles/1', '/records/order/3', '/records/order/new?all=', '/records/order/import', '/records/order/deleted',
  '/admin/classes/2/templates', `/admin/classes/2/forms/${form}`, `/forms/${form}`, '/tasks', '/tasks/all', '/search?text=img', '/me',
  '/admin/sign-in', '/admin/mail', '/admin/company', '/admin/log', '/admin/limits', '/admin/interface/theme',
]
const EDITED = ['/admin/users/32', '/admin/roles/1', '/records/order/2', '/records/order/3', '/tasks/1', '/admin/sign-in', '/admin/mail']

/** The console with text of twice the size. */
async function enlarged(page, tab, paths, edited = []) {
  await open(page)
  const look = async (what) => {
    // As the setting of a browser has it: all sizes follow.
    await page.evaluate(() => document.documentElement.style.setProperty('font-size', '200%'))
    await settled(page)
    assert.equal(await page.evaluate(() => Number.parseFloat(getComputedStyle(document.body).fontSize) >= 26), true, 'text does not grow')
    await tab.fits(`${tab.name}, ${what}`)
    await reachable(page, what)
    await tab.picture(`${tab.name}, ${what}`, { fullPage: true })
  }
  for (const path of paths) {
    await go(page, path)
    await look(path)
  }
  for (const path of edited) {
    await go(page, path)
    await page.keyboard.press('e')
    await page.waitForSelector('main form')
    await look(`${path}, edited`)
    await page.keyboard.press('Escape')
  }
}

if (settings.everyLook) await journey('text of twice the size', (page, tab) => enlarged(page, tab, MAIN))
if (settings.everyLook) await journey('text of twice the size, narrow', (page, tab) => enlarged(page, tab, NARROW, EDITED), { widths: [320] })

/** A control is not cut off: its text is within it, and it is within the window or a scrolling frame. */
async function reachable(page, path) {
  const cut = await page.evaluate(() => [...document.querySelectorAll('main button, main a, header button')]
    .filter((one) => one.checkVisibility() && getComputedStyle(one).overflow === 'hidden' && getComputedStyle(one).textOverflow !== 'ellipsis')
    .filter((one) => one.scrollWidth > one.clientWidth + 1 || one.scrollHeight > one.clientHeight + 1)
    .map(({ outerHTML }) => outerHTML.slice(0, 200)))
  assert.deepEqual(cut, [], path)
}

if (settings.everyLook) await journey('forced colours', async (page, tab) => {
  await open(page)
  await page.emulateMedia({ forcedColors: 'active' })
  for (const path of MAIN) {
    await go(page, path)
    await tab.fits(`${tab.name}, ${path}`)
    // A control that its ground alone would show has a border, and the focus a ring.
    const bare = await page.evaluate(() => [...document.querySelectorAll('main input:not([type=file]), main select, main textarea')]
      .filter((one) => one.checkVisibility())
      .filter((one) => {
        const { borderStyle, borderWidth, appearance } = getComputedStyle(one)
        return appearance === 'none' && (borderStyle === 'none' || Number.parseFloat(borderWidth) < 1)
      })
      .map(({ outerHTML }) => outerHTML.slice(0, 200)))
    assert.deepEqual(bare, [], path)
    await page.keyboard.press('Tab')
    const ring = await page.evaluate(() => {
      const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement)
      return outlineStyle !== 'none' && Number.parseFloat(outlineWidth) >= 2
    })
    assert.ok(ring, `${path}: what has the focus has no ring`)
  }
})

await journey('no motion', async (page) => {
  await open(page, '/admin/users')
  const moves = () => page.evaluate(() => [...document.querySelectorAll('*')].filter((one) => {
    const { transitionDuration, animationDuration, animationName, scrollBehavior } = getComputedStyle(one)
    const long = (text) => text.split(',').some((part) => Number.parseFloat(part) * (part.trim().endsWith('ms') ? 1 : 1000) > 10)
    return long(transitionDuration) || (animationName !== 'none' && long(animationDuration)) || scrollBehavior === 'smooth'
  }).length)
  assert.ok((await moves()) > 0, 'nothing moves anyway')
  await page.emulateMedia({ reducedMotion: 'reduce' })
  assert.equal(await moves(), 0)
  await page.keyboard.press('Control+k')
  await page.waitForSelector('[role=menuitem]')
  assert.equal(await moves(), 0)
})

await end()
