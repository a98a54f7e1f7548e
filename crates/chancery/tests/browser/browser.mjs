// Chromium for the tests: pages in every colour scheme and width, the messages of their consoles, and the results of axe-
// core.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { chromium } from 'playwright-core'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const WIDTHS = [1280, 320]

// The page in the other scheme differs only in its colours.
const COLOURS = ['color-contrast', 'link-in-text-block']

// Chromium writes this if a journey types before the page focuses its own field.
const AUTOFOCUS = /^Autofocus processing was blocked/

/** The settings of the Rust test. `everyLook` adds dark pages, large text and forced colours. */
export const settings = JSON.parse(process.argv[2])

const SCHEMES = settings.everyLook ? ['light', 'dark'] : ['light']

let browser

/**
 * Runs a journey in a context of its own, at all widths at once unless one is given. `JOURNEY=words` runs only journeys with
 * these words in the title.
 */
export async function journey(title, run, { widths = WIDTHS.slice(0, 1), ...options } = {}) {
  if (process.env.JOURNEY && !title.includes(process.env.JOURNEY)) return
  const begin = Date.now()
  browser ??= await chromium.launch({
    executablePath: '/usr/bin/chromium',
    args: process.getuid() === 0 ? ['--no-sandbox'] : [],
  })
  const runAt = async (width) => {
    const viewport = { width, height: 900 }
    const context = await browser.newContext({ colorScheme: SCHEMES[0], viewport, ...options })
    // A journey waits for things that come late on a busy machine. This timeout only ends a wait without result.
    context.setDefaultTimeout(90_000)
    const page = await context.newPage()
    const tab = new Tab(page, `${title}, ${width} px`)
    await run(page, tab).catch(async (error) => {
      if (settings.screenshots) await page.screenshot({ path: `${settings.screenshots}/failed.png` })
      assert.fail(`${tab.name}: ${error.stack}`)
    })
    tab.isSilent()
    assert.equal(tab.faults.join('\n'), '')
    await context.close()
  }
  await Promise.all(widths.map(runAt))
  console.log(`${((Date.now() - begin) / 1000).toFixed(1)} s: ${title}`)
}

export const everyWidth = { widths: WIDTHS }

/** The last line of each script. */
export const end = () => browser?.close()

/** Asks the Rust test for something that only it can do, and waits until that is done. */
export async function ask(what) {
  const done = new Promise((resolve) => process.stdin.resume().once('data', resolve))
  console.log(`! ${what}`)
  await done
  process.stdin.pause()
}

class Tab {
  console = []
  requests = []
  /** The faults of all checked pages. They are reported together at the end. */
  faults = []

  constructor(page, name) {
    Object.assign(this, { page, name })
    page.on('console', (message) => {
      const line = `${message.text()} ${message.location().url}`
      if (!AUTOFOCUS.test(line)) this.console.push(line)
    })
    page.on('pageerror', (error) => this.console.push(`${error}`))
    page.on('request', (request) => this.requests.push(request))
  }

  /** Checks that the console has only these new messages. Chromium writes each refused request there. */
  isSilent(...expected) {
    const lines = this.console.splice(0)
    assert.equal(lines.length, expected.length, `${this.name}: the console says ${lines.join('\n')}`)
    expected.forEach((text, n) => assert.ok(lines[n].includes(text), `${this.name}: the console says ${lines[n]}`))
  }

  /** axe-core finds nothing on the page as it is, in each colour scheme, and nothing is wider than the window. */
  async isAccessible(what) {
    for (const colorScheme of SCHEMES) {
      await this.page.emulateMedia({ colorScheme })
      // Colours have transitions.
      await this.page.evaluate(async () => {
        await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))
        const ends = (one) => Number.isFinite(one.effect?.getComputedTiming().endTime)
        for (const one of document.getAnimations().filter(ends)) one.finish()
      })
      const name = `${this.name}, ${colorScheme}, ${what}`
      await this.#isRight(name, colorScheme === SCHEMES[0] ? undefined : COLOURS)
    }
    await this.page.emulateMedia({ colorScheme: SCHEMES[0] })
  }

  async #isRight(name, rules) {
    if (!(await this.page.evaluate(() => 'axe' in globalThis))) await this.page.evaluate(AXE)
    const { violations } = await this.page.evaluate(
      (runOnly) => globalThis.axe.run({ resultTypes: ['violations'], ...(runOnly && { runOnly }) }),
      rules,
    )
    const faults = violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join('\n    ')}`)
    await this.picture(name)
    for (const fault of faults) this.faults.push(`${name}: ${fault}`)
    await this.fits(name)
  }

  /** Stores a picture of the page, if pictures are wanted. */
  async picture(name, options) {
    if (!settings.screenshots) return
    const file = name.replaceAll(/[^\w=-]+/g, '-')
    await this.page.screenshot({ path: `${settings.screenshots}/${file}.png`, ...options })
  }

  /** Nothing is wider than the window. */
  async fits(name) {
    const [widest, outside] = await this.page.evaluate(() => {
      const { scrollWidth, clientWidth } = document.documentElement
      if (scrollWidth <= clientWidth) return [scrollWidth, []]
      const isOutside = (one) => one.getBoundingClientRect().right > clientWidth + 1
      const innermost = [...document.querySelectorAll('body *')].filter((one) => isOutside(one) && ![...one.children].some(isOutside))
      return [scrollWidth, innermost.map(({ outerHTML }) => outerHTML.slice(0, 150)).slice(0, 5)]
    })
    if (widest > this.page.viewportSize().width) this.faults.push(`${name}: ${widest} px wide\n    ${outside.join('\n    ')}`)
  }
}
