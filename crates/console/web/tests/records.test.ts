import assert from 'node:assert/strict'
import test from 'node:test'
import { changesOf } from '../src/screens/records/event-changes.ts'
import { holds, layoutOf } from '../src/screens/records/form-layout.ts'

const FIELDS = [
  { alias: 'number', type: 'string', required: false },
  { alias: 'urgent', type: 'boolean', required: false },
  { alias: 'notes', type: 'string', required: true },
]

test('a form asks for the fields that it names, in its order and words', () => {
  const configuration = {
    version: 1,
    sections: [
      {
        title: 'Paper',
        items: [{ field: 'notes', help: 'Few words' }, { text: 'And' }, { field: 'number', required: true }],
      },
      { when: { field: 'urgent', equals: true }, items: [{ field: 'urgent' }] },
      { items: [{ field: 'gone' }, { component: 3 }] },
    ],
  }
  const layout = layoutOf(configuration, FIELDS, {}, 'none')
  assert.deepEqual(
    layout?.sections.map(({ heading, fields }) => [heading, fields]),
    [
      ['Paper', ['notes', '.0.1', 'number']],
      [undefined, ['.2.1']],
    ],
  )
  assert.deepEqual(layout?.texts, { '.0.1': 'And', '.2.1': 'none' })
  assert.equal(layout?.fields.find(({ alias }) => alias === 'number')?.required, true)
  assert.equal(layout?.fields.find(({ alias }) => alias === 'notes')?.description, 'Few words')
  assert.equal(layoutOf(configuration, FIELDS, { urgent: true }, '')?.sections.length, 3)
})

test('a configuration of another kind asks for everything', () => {
  assert.equal(layoutOf({ rows: [] }, FIELDS, {}, ''), undefined)
  assert.equal(layoutOf('x', FIELDS, {}, ''), undefined)
})

test('a condition looks at a value', () => {
  assert.equal(holds({ field: 'a', in: [1, 2] }, { a: 2 }), true)
  assert.equal(holds({ field: 'a' }, { a: false }), false)
  assert.equal(holds(undefined, {}), true)
})

test('what was there before comes from older events', () => {
  const event = (value: number | null) => ({
    event_data: [{ field_id: 4, field_name: 'Items', field_type: 'integer', field_value: value }],
  })
  const added = { event_data: [{ id: 2, type: 'user', name: 'Anna', permission_set: { id: 1, name: 'Workers' } }] }
  const changes = changesOf([event(null), added, event(7), event(5)])
  assert.deepEqual(
    changes.map(([first]) => [first?.old, first?.now]),
    [
      [7, null],
      [undefined, 'Anna'],
      [5, 7],
      [undefined, 5],
    ],
  )
  assert.equal(changes[1]?.[0]?.name, 'Workers')
})
