// How soon the console paints. A sort and a page: from the arrival of the answer, or from the click where the rows are
// at hand, to the frame in which the new rows are painted. Prints a line of CSV for each: what, rows, median and 95th percentile in milliseconds, rounds.

import { chromium } from 'playwright-core'

const { address, username, password, rounds } = JSON.parse(process.argv[2])

const args = process.getuid() === 0 ? ['--no-sandbox'] : []
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args })
const page = await (await browser.newContext({ viewport: { width: 1280, height: 900 } })).newPage()
await page.goto(`${address}/sign-in/`)
await page.fill('[name=username]', username)
await page.fill('[name=password]', password)
await page.keyboard.press('Enter')
await page.waitForURL('**/console/')

/** The milliseconds from the end of the answer of a list to the frame after its rows are there. */
async function painted(act) {
  const time = page.evaluate(() => new Promise((resolve) => {
    performance.clearResourceTimings()
    let begun = 0
    addEventListener('click', () => { begun = performance.now() }, { capture: true, once: true })
    const before = document.querySelector('tbody')?.textContent
    const look = () => {
      const now = document.querySelector('tbody')?.textContent
      if (now === before || now === undefined) return requestAnimationFrame(look)
      const lists = performance.getEntriesByType('resource').filter(({ name }) => name.includes('/object-records/?'))
      // Rows that are at hand are asked for no more: then the time counts from the click.
      const answered = Math.max(begun, ...lists.map(({ responseEnd }) => responseEnd))
      // The frame in which the rows are painted is over when the next one begins.
      requestAnimationFrame((at) => resolve(at - answered))
    }
    requestAnimationFrame(look)
  }))
  await act()
  return time
}

async function measure(what, rows, act) {
  const times = []
  for (let round = 0; round < rounds; round++) times.push(await painted(() => act(round)))
  times.sort((a, b) => a - b)
  const at = (part) => times[Math.min(times.length - 1, Math.floor(times.length * part))].toFixed(0)
  console.log([what, rows, at(0.5), at(0.95), rounds].join(','))
}

for (const rows of [25, 100]) {
  await page.goto(`${address}/console/records/invoice?limit=${rows}`)
  await page.waitForSelector('tbody tr')
  // Not in the order of the ids: each click shows other rows.
  const head = page.locator('thead').getByRole('button', { name: 'Amount' })
  await head.click()
  await page.waitForTimeout(500)
  await measure('sort', rows, () => head.click())
  await page.goto(`${address}/console/records/invoice?limit=${rows}`)
  await page.waitForSelector('tbody tr')
  await measure('page', rows, (round) => page.getByRole('button', { name: round % 2 ? 'Previous page' : 'Next page' }).click())
}
await browser.close()
