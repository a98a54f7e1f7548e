// Takes the pictures of docs/console.md of a build that `chancery demo` made. See `make`.

import { mkdirSync, writeFileSync } from 'node:fs'
import { chromium } from 'playwright-core'

const { address, username, password, folder } = JSON.parse(process.argv[2])

/** The name of each picture, and where it is taken. */
const SCREENS = {
  home: '/',
  list: '/records/invoice',
  record: '/records/contract/@contract',
  new: '/records/invoice/new',
  tasks: '/tasks/all/board',
  task: '/tasks/1',
  user: '/admin/users/2',
  role: '/admin/roles/1',
  class: '/admin/classes/2',
  connector: '/admin/connectors/1',
  'sign-in-rules': '/admin/sign-in',
  log: '/admin/log',
  interface: '/admin/interface/theme',
}
/** The one that is taken dark as well. */
const DARK = 'record'
const SIZE = { width: 1120, height: 700 }
/** At most this many bytes each; the quality goes down until that holds. */
const MOST = 60 * 1024

/** A picture as WebP, made by the browser itself. */
async function webp(page, png) {
  for (const quality of [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2]) {
    const made = await page.evaluate(async ([data, wanted]) => {
      const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${data}`)).blob())
      const canvas = new OffscreenCanvas(image.width, image.height)
      canvas.getContext('2d').drawImage(image, 0, 0)
      const blob = await canvas.convertToBlob({ type: 'image/webp', quality: wanted })
      const bytes = new Uint8Array(await blob.arrayBuffer())
      return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''))
    }, [png.toString('base64'), quality])
    const content = Buffer.from(made, 'base64')
    if (content.length <= MOST) return content
  }
  throw new Error('a picture is too large at any quality')
}

mkdirSync(folder, { recursive: true })
const args = process.getuid() === 0 ? ['--no-sandbox'] : []
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args })
const drawing = await (await browser.newContext()).newPage()
for (const colorScheme of ['light', 'dark']) {
  const page = await (await browser.newContext({ colorScheme, viewport: SIZE })).newPage()
  await page.goto(`${address}/sign-in/`)
  await page.fill('[name=username]', username)
  await page.fill('[name=password]', password)
  await page.keyboard.press('Enter')
  await page.waitForURL('**/console/')
  for (const [name, path] of Object.entries(SCREENS)) {
    if (colorScheme === 'dark' && name !== DARK) continue
    let to = path
    if (path.includes('@')) {
      await page.goto(`${address}/console${path.slice(0, path.lastIndexOf('/'))}`)
      to = (await page.locator('tbody th a').first().getAttribute('href')).replace('/console', '')
    }
    await page.goto(`${address}/console${to}`)
    await page.waitForSelector('main h1')
    await page.waitForLoadState('networkidle')
    writeFileSync(`${folder}/${name}-${colorScheme}.webp`, await webp(drawing, await page.screenshot()))
  }
}
await browser.close()
