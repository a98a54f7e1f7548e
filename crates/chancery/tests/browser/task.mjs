// The page of a link to a task: its inputs, its errors, its files.

import assert from 'node:assert/strict'
import { end, everyWidth, journey, settings } from './browser.mjs'

const { api, link } = settings
const h1 = (page) => page.locator('main h1').innerText()
const address = `${api}/task/?token=${link}`

await journey('the page of a task', async (page, tab) => {
  await page.goto(address)
  assert.equal(await h1(page), 'Visit')
  await tab.isAccessible('as it is opened')
  tab.isSilent()
  await page.fill('[name=q0]', 'Basel')
  await page.fill('[name=q2]', 'many')
  await page.click('button')
  assert.equal(await page.locator('[role=alert]').last().innerText(), 'A valid integer is required.')
  assert.equal(await page.inputValue('[name=q0]'), 'Basel')
  await tab.isAccessible('what is wrong')
  tab.isSilent('400')
  await page.goto(`${api}/task/?token=dead`)
  await tab.isAccessible('a link that does not work')
  tab.isSilent('400')
}, everyWidth)

await journey('a task is completed with a file, without scripts', async (page, tab) => {
  await page.goto(address)
  await page.fill('[name=q0]', 'Basel "&" <Bern>')
  await page.fill('[name=q1]', 'one\ntwo')
  await page.fill('[name=q2]', '3')
  await page.selectOption('[name=q3]', { label: 'Vegan' })
  await page.check('[name=q4] >> nth=1')
  await page.fill('[name=q5]', '2026-02-28')
  await page.fill('[name=q6]', '2026-02-28T12:30')
  await page.setInputFiles('[name=q7]', { name: 'a "b" ä.csv', mimeType: 'text/csv', buffer: Buffer.from('a;b') })
  await page.fill('[name=comment]', 'Well.')
  await page.click('button')
  assert.equal(await h1(page), 'Done')
  tab.isSilent()
  assert.deepEqual(await page.context().cookies(), [])
  await page.goto(address)
  assert.equal(await h1(page), 'Task')
  tab.isSilent('400')
}, { javaScriptEnabled: false })

await end()
