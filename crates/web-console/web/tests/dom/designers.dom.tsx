import assert from 'node:assert/strict'
import { test } from 'node:test'
import { useState } from 'react'
import type { Field, Instance, Json } from '../../src/api/shapes.ts'
import { ClassFields } from '../../src/screens/classes/fields.tsx'
import { Designer } from '../../src/screens/forms/designer.tsx'
import type { Section } from '../../src/shared/forms/configuration.ts'
import { type Answers, all, eventually, open, pageOf, press, type TestPage, texts, type } from './page.tsx'

let page: TestPage

const FIELDS: Field[] = [
  { alias: 'title', type: 'string', required: true, label: 'Title' },
  { alias: 'done', type: 'boolean', required: false, label: 'Done' },
  { alias: 'note', type: 'text', required: false, label: 'Note' },
]
const SECTIONS: Section[] = [
  { title: 'First', text: '', when: undefined, items: [{ field: 'title' }, { text: 'Hello' }] },
  { title: 'Second', text: '', when: { field: 'done', in: [true] }, items: [{ field: 'done' }] },
]

let sections: Section[] = []

function Designed() {
  const [state, setState] = useState(SECTIONS)
  sections = state
  return <Designer sections={state} fields={FIELDS} onChange={setState} />
}

async function openDesigner() {
  page = await open('/', <Designed />, {})
  await eventually(() => assert.deepEqual(texts('h3'), ['First', 'Second']))
}

const items = (n: number) => sections[n]?.items

test('a form shows its sections with their items and conditions', async () => {
  await openDesigner()
  assert.deepEqual(
    texts('ol ol > li').map((text) => text.split(' ')[0]),
    ['Title', 'Hello', 'Done'],
  )
  assert.ok(document.body.textContent?.includes('Shown only when Done is true'))
})

test('a section is moved, removed and added', async () => {
  await openDesigner()
  await press('Move First down')
  assert.deepEqual(texts('h3'), ['Second', 'First'])
  await press('Remove First')
  await press('New section')
  assert.deepEqual(texts('h3'), ['Second', 'Section without a title'])
})

test('an item is moved within its section and removed', async () => {
  await openDesigner()
  await press('Move Hello up')
  assert.deepEqual(items(0), [{ text: 'Hello' }, { field: 'title' }])
  await press('Remove Title')
  assert.deepEqual(items(0), [{ text: 'Hello' }])
})

test('a text is added, and an empty one is not', async () => {
  await openDesigner()
  await press('Add a text')
  await type('text', 'Thank you')
  await press('Apply')
  assert.deepEqual(items(0)?.at(-1), { text: 'Thank you' })
})

test('an item is edited in its dialog', async () => {
  await openDesigner()
  await press('Edit Title')
  await type('label', 'Name of the case')
  await press('Apply')
  assert.deepEqual(items(0)?.[0], { field: 'title', label: 'Name of the case' })
})

test('a section is edited in its dialog', async () => {
  await openDesigner()
  await press('Edit Second')
  await type('title', 'Last')
  await press('Apply')
  assert.deepEqual(sections[1], { ...SECTIONS[1], title: 'Last' })
})

const CLASS: Instance = { id: 1, name: 'Case', label_field: 'title', _meta: { permissions: { edit: true } } }
const field = (id: number, alias: string, type: string): Json => ({
  id,
  alias,
  type,
  label: alias.toUpperCase(),
  position: id,
  is_required: id === 1,
  modified_at: '2026-01-01T00:00:00Z',
})
const PATH = '/api/object-classes/1/'
const CLASS_API: Answers = {
  [`GET ${PATH}fields/`]: pageOf([field(1, 'title', 'string'), field(2, 'done', 'boolean'), field(3, 'note', 'text')]),
}

async function openClass(answers: Answers = {}) {
  page = await open(
    '/',
    <ClassFields instance={CLASS} path={PATH} />,
    Object.assign(answers, { ...CLASS_API, ...answers }),
  )
  await eventually(() => assert.deepEqual(texts('strong'), ['TITLE', 'DONE', 'NOTE']))
}

test('a class shows its fields with their types and rules', async () => {
  await openClass()
  const rules = all('ol > li').map((line) => line.textContent ?? '')
  assert.match(rules[0] ?? '', /Required/i)
  assert.match(rules[0] ?? '', /label of the record/)
  assert.doesNotMatch(rules[1] ?? '', /Required/i)
})

test('a move sends the changed position, on the condition that the field has not changed', async () => {
  const title = field(1, 'title', 'string')
  const done = field(2, 'done', 'boolean')
  const note = field(3, 'note', 'text')
  const answers: Answers = {
    [`GET ${PATH}fields/`]: pageOf([title, done, note]),
    [`GET ${PATH}fields/2/`]: done,
    [`PATCH ${PATH}fields/2/`]: () => {
      answers[`GET ${PATH}fields/`] = pageOf([done, title, note])
      return done
    },
  }
  await openClass(answers)
  await press('Move DONE up')
  const sent = await eventually(() => {
    const request = page.requests.find(({ method }) => method === 'PATCH')
    assert.ok(request)
    return request
  })
  assert.deepEqual([sent.path, sent.body], [`${PATH}fields/2/`, { position: 0 }])
  await eventually(() => assert.deepEqual(texts('strong'), ['DONE', 'TITLE', 'NOTE']))
})

test('a field is deleted after a question that names the records with a value', async () => {
  await openClass({
    [`GET ${PATH}object-records/`]: pageOf([], 12),
    [`GET ${PATH}fields/3/`]: field(3, 'note', 'text'),
    [`DELETE ${PATH}fields/3/`]: {},
  })
  await press('Delete NOTE')
  await eventually(() => assert.match(texts('[role=dialog]').join(), /12 records/))
  await press('Delete')
  await eventually(() => assert.ok(page.requests.some(({ method }) => method === 'DELETE')))
})
