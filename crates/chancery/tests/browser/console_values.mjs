// The console stores typed, imported and exported values exactly: dates in many notations, whole numbers beyond 2^53, files
// of many kinds, and its own exports, whose import changes nothing.

import assert from 'node:assert/strict'
import { end, journey, settings } from './browser.mjs'
import { go, open, settled } from './console_steps.mjs'

const { api, username, password } = settings
let token

async function call(method, path, body) {
  const headers = { 'Content-Type': 'application/json', ...(token && { Authorization: `Bearer ${token}` }) }
  const answer = await fetch(`${api}${path}`, { method, headers, body: typeof body === 'string' ? body : body && JSON.stringify(body) })
  const text = await answer.text()
  assert.ok(answer.ok, `${method} ${path}: ${text}`)
  return text
}

const json = async (...request) => JSON.parse(await call(...request))

/** A class with these fields; its id. */
async function classOf(name, fields) {
  token ??= (await json('POST', '/api/auth/login/', { username, password })).access_token
  const { id } = await json('POST', '/api/object-classes/', { name })
  for (const field of fields) await call('POST', `/api/object-classes/${id}/fields/`, field)
  return id
}

const listOf = (id) => `/api/object-classes/${id}/object-records/`
const records = async (id) => (await json('GET', `${listOf(id)}?ordering=id`)).results
const shows = (page, text) => page.waitForFunction((wanted) => document.querySelector('main').textContent.includes(wanted), text)
const press = (page, name) => page.getByRole('button', { name, exact: true }).click()

// Typed into the field, and saved.
const days = [
  ['1/1/2026', '2026-01-01'],
  ['1.1.2026', '2026-01-01'],
  ['2-1-2026', '2026-01-02'],
  ['3 1 2026', '2026-01-03'],
  ['4,1,2026', '2026-01-04'],
  ['05/01/26', '2026-01-05'],
  ['31122026', '2026-12-31'],
  ['2026-03-04', '2026-03-04'],
]

await journey('dates as people type them', async (page, tab) => {
  const id = await classOf('Typed', [{ label: 'Day', type: 'date' }, { label: 'At', type: 'datetime' }])
  const last = async () => (await json('GET', `${listOf(id)}?ordering=-id&limit=1`)).results[0].fields
  await open(page, '/records/typed/new')
  const day = page.locator('main [name=day]')
  for (const [typed, saved] of days) {
    await day.click()
    await page.keyboard.type(typed)
    await page.keyboard.press('Control+s')
    await page.getByRole('button', { name: 'Edit', exact: true }).waitFor()
    assert.deepEqual(await last(), { day: saved, at: null }, typed)
    await go(page, '/records/typed/new')
  }

  // A pasted text is taken as a whole.
  await day.click()
  await page.evaluate(() => document.execCommand('insertText', false, '2026-05-06'))
  await page.locator('main [name=at]').click()
  await page.keyboard.type('28.6.26 2:30 pm')
  await page.keyboard.press('Control+s')
  await page.getByRole('button', { name: 'Edit', exact: true }).waitFor()
  const { timezone } = await json('GET', '/api/users/me/')
  assert.equal(timezone, 'UTC')
  assert.deepEqual(await last(), { day: '2026-05-06', at: '2026-06-28T14:30:00.000000Z' })

  // The calendar of an empty date and time sets midnight, which the user then changes.
  await go(page, '/records/typed/new')
  await press(page, 'Calendar At')
  await page.waitForSelector('[role=dialog] [role=gridcell] :focus')
  await tab.isAccessible('the calendar of a date and time')
  await page.keyboard.press('Enter')
  const at = page.locator('main [name=at]')
  const today = new Date().toISOString().slice(0, 10)
  assert.equal(await at.inputValue(), `${today.split('-').reverse().join('/')}, 00:00`)
  await at.fill((await at.inputValue()).replace('00:00', '09:05'))
  await page.keyboard.press('Control+s')
  await page.getByRole('button', { name: 'Edit', exact: true }).waitFor()
  assert.deepEqual(await last(), { day: null, at: `${today}T09:05:00.000000Z` })

  // A day that does not exist is an error at the field, and the typed text remains.
  await go(page, '/records/typed/new')
  await day.click()
  await page.keyboard.type('31/02/2026')
  await page.keyboard.press('Tab')
  await page.locator('main [data-field=day]', { hasText: 'This day does not exist.' }).waitFor()
  assert.equal(await day.inputValue(), '31/02/2026')
  await page.keyboard.press('Control+s')
  await page.getByRole('button', { name: 'Day: This day does not exist.' }).click()
  await page.waitForSelector('main [name=day]:focus')
  await tab.isAccessible('a day that does not exist')
  await page.keyboard.press('Control+a')
  await page.keyboard.type('1/1/1826')
  await page.keyboard.press('Control+s')
  await page.getByRole('button', { name: 'Day: Is the year 1826 right?' }).waitFor()
  await tab.isAccessible('a year of long ago')
  await press(page, 'Yes, it is 1826')
  await page.keyboard.press('Control+s')
  await page.getByRole('button', { name: 'Edit', exact: true }).waitFor()
  assert.deepEqual(await last(), { day: '1826-01-01', at: null })
  assert.equal((await records(id)).length, days.length + 3)
})

const BIG = '9007199254740993'

await journey('whole numbers beyond 2^53', async (page) => {
  const id = await classOf('Big', [{ label: 'Name', type: 'string' }, { label: 'Num', type: 'integer' }])
  await call('POST', listOf(id), `{"fields":{"name":"A","num":${BIG}}}`)
  const stored = async () => (await call('GET', listOf(id))).match(/"num":(-?\d+)/)[1]
  await open(page, '/records/big')
  await page.locator('tbody', { hasText: BIG }).waitFor()
  await go(page, `/records/big?num=${BIG}`)
  await page.locator('tbody', { hasText: BIG }).waitFor()
  await page.locator('tbody a').first().click()
  await shows(page, BIG)
  await press(page, 'Edit')
  const num = page.locator('main [name=num]')
  await num.waitFor()
  assert.equal(await num.inputValue(), BIG)
  await page.locator('main [name=name]').fill('B')
  await page.keyboard.press('Control+s')
  await shows(page, 'B')
  await page.getByRole('button', { name: 'Edit', exact: true }).waitFor()
  assert.equal(await stored(), BIG)
  await press(page, 'Edit')
  await num.fill('-9007199254740995')
  await page.keyboard.press('Control+s')
  await page.getByRole('button', { name: 'Edit', exact: true }).waitFor()
  await shows(page, '-9007199254740995')
  assert.equal(await stored(), '-9007199254740995')
})

/** Chooses a file in the import of a class. */
async function choose(page, alias, name, content) {
  await go(page, `/records/${alias}`)
  await go(page, `/records/${alias}/import`)
  await page.setInputFiles('input[type=file]', { name, mimeType: 'text/plain', buffer: Buffer.from(content) })
}

/** Checks all rows, and then imports them. */
async function importAll(page, checked, button, over) {
  await press(page, 'Check all rows')
  await shows(page, checked)
  await press(page, button)
  await shows(page, over)
}

await journey('files of many kinds', async (page, tab) => {
  const fields = [
    { label: 'Name', type: 'string' },
    { label: 'Zip', type: 'string' },
    { label: 'Day', type: 'date' },
    { label: 'Total', type: 'decimal', scale: 2 },
    { label: 'Num', type: 'integer' },
  ]
  const id = await classOf('Files', fields)
  const values = async (...aliases) => (await records(id)).map((record) => aliases.map((alias) => record.fields[alias]))
  const empty = async () => {
    const ids = (await records(id)).map((record) => record.id)
    await call('DELETE', `${listOf(id)}batch/`, { ids })
  }
  await open(page, '/records/files')

  // Row ends that differ, and rows that do not fit.
  await choose(page, 'files', 'a.csv', 'Name,Zip\r\nA,1\nB,2\nMiller, Ltd,3\nC,4\n')
  await shows(page, '4 rows with 2 columns.')
  await importAll(page, 'One row would be refused.', 'Import 3 rows', '3 records were created')
  await shows(page, 'Line 4: 3 cells, 2 columns.')
  await tab.isAccessible('a row that does not fit')
  assert.deepEqual(await values('name', 'zip'), [['A', '1'], ['B', '2'], ['C', '4']])
  await empty()

  // A quotation mark that never closes: nothing can be imported.
  await choose(page, 'files', 'a.csv', 'Name,Zip\nA,"1\nB,2\n')
  await shows(page, 'Line 2: a quotation mark opens here')
  assert.equal(await page.getByRole('button', { name: 'Check all rows' }).count(), 0)
  await tab.isAccessible('a file that is broken')
  await choose(page, 'files', 'a.csv', 'PK\x03\x04\x00\x00')
  await shows(page, 'This is not a text file.')

  // As spreadsheets write it in Britain and America, in another encoding.
  const sheet = 'sep=;\r\nName;Day;Total\r\nZo\xeb;31/12/2026;\xa31,234.50\r\nB;1/2/26;(5.00)\r\n'
  await choose(page, 'files', 'a.csv', Buffer.from(sheet, 'latin1'))
  await shows(page, '2 rows with 3 columns.')
  assert.equal(await page.locator('main [name=order]').inputValue(), 'dmy')
  await shows(page, '1/2/26 is read as 1 Feb 2026')
  await tab.isAccessible('how dates are written')
  await importAll(page, 'Nothing is wrong.', 'Import 2 rows', '2 records were created')
  assert.deepEqual(await values('name', 'day', 'total'), [['Zoë', '2026-12-31', '1234.50'], ['B', '2026-02-01', '-5.00']])
  await empty()
  await choose(page, 'files', 'a.csv', 'Name,Day\nA,1/2/2026\nB,12/31/2026\n')
  assert.equal(await page.locator('main [name=order]').inputValue(), 'mdy')
  await importAll(page, 'Nothing is wrong.', 'Import 2 rows', '2 records were created')
  assert.deepEqual(await values('day'), [['2026-01-02'], ['2026-12-31']])
  await empty()

  // Rows without an ID may be matched by a field. A value of several records is refused.
  for (const zip of ['1', '2', '2']) await call('POST', listOf(id), { fields: { name: 'Old', zip } })
  await choose(page, 'files', 'a.csv', 'Name,Zip\nNew,1\nNew,2\nNew,3\n')
  await page.locator('main [name=match]').selectOption('zip')
  await importAll(page, 'One record would be created, one changed. One row would be refused.', 'Import 2 rows', 'One record was created')
  await shows(page, 'Line 3: Zip: “2” has more than one match.')
  assert.deepEqual(await values('name', 'zip'), [['New', '1'], ['Old', '2'], ['Old', '2'], ['New', '3']])
  await empty()
  const many = Array.from({ length: 60 }, (_, n) => [`Old ${n}`, `z${n}`])
  await call('POST', `${listOf(id)}batch/`, { items: many.map(([name, zip]) => ({ fields: { name, zip } })) })
  const rows = many.map(([name, zip], n) => `${n % 2 ? name : 'New'},${zip}`)
  await choose(page, 'files', 'a.csv', `Name,Zip\n${rows.join('\n')}\n`)
  await page.locator('main [name=match]').selectOption('zip')
  await importAll(page, 'No record would be created, 30 changed. Nothing is wrong. 30 rows change nothing.', 'Import 30 rows', '30 changed')
  assert.deepEqual((await json('GET', `${listOf(id)}?ordering=id&limit=100`)).results.map(({ fields: { name, zip } }) => `${name},${zip}`), rows)
  const all = (await json('GET', `${listOf(id)}?limit=100`)).results.map((record) => record.id)
  await call('DELETE', `${listOf(id)}batch/`, { ids: all })

  // JSON as a list, with a number beyond 2^53. Each error appears once, with all its lines.
  await choose(page, 'files', 'a.json', `[\n  {"name": "A", "num": ${BIG}},\n  {"name": "B", "num": "x"},\n  {"name": "C", "num": "y"}\n]`)
  await importAll(page, '2 rows would be refused.', 'Import one row', 'One record was created')
  await shows(page, 'Items 2, 3: Num: “x” is not a whole number.')
  assert.match(await call('GET', listOf(id)), new RegExp(`"num":${BIG}`))
})

await journey('an export that comes back', async (page, tab) => {
  const options = [{ value: 'a', text: 'b' }, { value: 'b', text: 'a' }, { value: 'c;d', text: 'C' }]
  const target = await classOf('Target', [{ label: 'Name', type: 'string' }])
  const id = await classOf('Roundtrip', [
    { label: 'String', type: 'string' },
    { label: 'Text', type: 'text' },
    { label: 'Url', type: 'url' },
    { label: 'Email', type: 'email' },
    { label: 'Integer', type: 'integer' },
    { label: 'Decimal', type: 'decimal', scale: 3 },
    { label: 'Boolean', type: 'boolean' },
    { label: 'Date', type: 'date' },
    { label: 'Datetime', type: 'datetime' },
    { label: 'Enum', type: 'enum', options },
    { label: 'Set', type: 'set', options },
    { label: 'Status', type: 'status', options, initial: 'a' },
    { label: 'User', type: 'user' },
    { label: 'Relation', type: 'relation', related_object_class: target },
    // A name that is also one of a column beside the fields.
    { label: 'Created at', alias: 'made', type: 'date' },
  ])
  const { id: me } = await json('GET', '/api/users/me/')
  const { id: related } = await json('POST', listOf(target), { fields: { name: 'T' } })
  const full = {
    string: '=1+1', text: 'two\nlines, "quoted"; ümlaut', url: 'https://a.example/?b=c', email: '+a@a.example', decimal: '-1234.500',
    boolean: false, date: '0999-12-31', datetime: '2026-12-31T10:30:00.123456Z', enum: 'a', set: ['c;d', 'a'], status: 'b', user: me,
    relation: related, made: '2026-01-02',
  }
  await call('POST', listOf(id), JSON.stringify({ fields: full }).replace('{"fields":{', `{"fields":{"integer":-${BIG},`))
  await call('POST', listOf(id), { fields: { ...full, string: '0123', decimal: '1.234', set: ['b'], datetime: '2026-07-01T00:00:00Z' }, owner: null })
  // An export guards texts that a spreadsheet could run, and those that look guarded already.
  await call('POST', listOf(id), { fields: { set: [], string: "'=x", text: '=x' } })

  await open(page, '/records/roundtrip')
  for (const [format, item] of [['csv', 'Export as CSV'], ['ndjson', 'Export as JSON lines']]) {
    const before = await call('GET', listOf(id))
    await go(page, '/records/roundtrip')
    await press(page, 'More of Roundtrip')
    const [download, request] = await Promise.all([
      page.waitForEvent('download'),
      page.waitForRequest(/export\/link\/$/),
      page.getByRole('menuitem', { name: item }).click(),
    ])
    assert.equal(request.postDataJSON().bom, format === 'csv' ? 'true' : undefined)
    const chunks = []
    for await (const chunk of await download.createReadStream()) chunks.push(chunk)
    const bytes = Buffer.concat(chunks)
    assert.equal(bytes.subarray(0, 3).equals(Buffer.from([0xef, 0xbb, 0xbf])), format === 'csv')
    const content = bytes.toString()
    if (format === 'csv') assert.ok(content.includes(",''=x,'=x,"), content)
    await choose(page, 'roundtrip', `roundtrip.${format}`, content)
    await shows(page, '3 rows with')
    await press(page, 'Check all rows')
    await shows(page, 'No record would be created, none changed. Nothing is wrong. 3 rows change nothing.')
    assert.ok(await page.getByRole('button', { name: 'Import no row' }).isDisabled())
    await tab.isAccessible(`an export as ${format} that comes back`)
    assert.equal(await call('GET', listOf(id)), before)

    // Only the differences are sent.
    await choose(page, 'roundtrip', `roundtrip.${format}`, content.replace('0123', '0124'))
    await press(page, 'Check all rows')
    await shows(page, 'No record would be created, one changed. Nothing is wrong. 2 rows change nothing.')
    const batch = page.waitForRequest(/batch\/$/)
    await press(page, 'Import one row')
    assert.deepEqual(JSON.parse((await batch).postData()).items.map(({ fields }) => fields), [{ string: '0124' }])
    await shows(page, 'one changed')
    await settled(page)

    // As a new record, too.
    const lines = content.trimEnd().split('\n')
    const [head, last] = [lines[0], lines.at(-1)]
    const alone = format === 'csv' ? [head, last.replace(/^\d+/, '')].join('\n') : JSON.stringify({ ...JSON.parse(last), id: undefined })
    await choose(page, 'roundtrip', `roundtrip.${format}`, alone)
    await importAll(page, 'Nothing is wrong.', 'Import one row', 'One record was created')
    const created = (await records(id)).at(-1)
    assert.deepEqual([created.fields.string, created.fields.text], ["'=x", '=x'])
    await call('DELETE', `${listOf(id)}batch/`, { ids: [created.id] })

    const [, second] = await records(id)
    assert.equal(second.fields.string, '0124')
    await call('PATCH', `/api/object-records/${second.id}/`, { fields: { string: '0123' } })
    assert.deepEqual((await records(id)).map(({ fields }) => fields), JSON.parse(before).results.map(({ fields }) => fields))
  }
})

await end()
