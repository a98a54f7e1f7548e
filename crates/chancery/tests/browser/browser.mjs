// Chromium for the tests: pages in every colour scheme and width, with what their consoles say and what axe-core finds.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { chromium } from 'playwright-core'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const LOOKS = ['light', 'dark'].flatMap((colorScheme) => [1280, 320].map((width) => ({ colorScheme, width })))

// Chromium says this where a journey types before the page has given its own field the focus.
const AUTOFOCUS = /^Autofocus processing was blocked/

/** What the Rust test hands over. */
export const settings = JSON.parse(process.argv[2])

/** Runs a journey in a browser of its own, in each look unless one is named. `JOURNEY=words` runs those alone whose title has them. */
export async function journey(title, run, { looks = LOOKS.slice(0, 1), ...options } = {}) {
  if (process.env.JOURNEY && !title.includes(process.env.JOURNEY)) return
  const browser = await chromium.launch({
    executablePath: '/usr/bin/chromium',
    args: process.getuid() === 0 ? ['--no-sandbox'] : [],
  })
  try {
    for (const { colorScheme, width } of looks) {
      const viewport = { width, height: 900 }
      const context = await browser.newContext({ colorScheme, viewport, ...options })
      context.setDefaultTimeout(20_000)
      const page = await context.newPage()
      const tab = new Tab(page, `${title}, ${colorScheme}, ${width} px`)
      await run(page, tab).catch((error) => assert.fail(`${tab.name}: ${error.stack}`))
      tab.isSilent()
      await context.close()
    }
  } finally {
    await browser.close()
  }
}

export const everyLook = { looks: LOOKS }

class Tab {
  console = []
  requests = []

  constructor(page, name) {
    Object.assign(this, { page, name })
    page.on('console', (message) => {
      const said = `${message.text()} ${message.location().url}`
      if (!AUTOFOCUS.test(said)) this.console.push(said)
    })
    page.on('pageerror', (error) => this.console.push(`${error}`))
    page.on('request', (request) => this.requests.push(request))
  }

  /** The console has said nothing but this since it was last asked. Chromium writes each answer that is an error there. */
  isSilent(...expected) {
    const said = this.console.splice(0)
    assert.equal(said.length, expected.length, `${this.name}: the console says ${said.join('\n')}`)
    expected.forEach((text, n) => assert.ok(said[n].includes(text), `${this.name}: the console says ${said[n]}`))
  }

  /** axe-core finds nothing on the page as it is, and nothing is wider than the window. */
  async isAccessible(what) {
    await this.page.evaluate(AXE)
    const { violations } = await this.page.evaluate(() => globalThis.axe.run())
    const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join('\n    ')}`)
    assert.equal(found.join('\n'), '', `${this.name}, ${what}`)
    const widest = await this.page.evaluate(() => document.documentElement.scrollWidth)
    assert.ok(widest <= this.page.viewportSize().width, `${this.name}, ${what}: ${widest} px wide`)
    if (settings.screenshots) {
      const name = `${this.name} ${what}`.replaceAll(/[^\w=-]+/g, '-')
      await this.page.screenshot({ path: `${settings.screenshots}/${name}.png` })
    }
  }
}
