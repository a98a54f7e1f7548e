import assert from 'node:assert/strict'
import test from 'node:test'
import type { Field } from '../src/api/shapes.ts'
import { configurationOf, fieldsIn, flaws, sectionsOf, visibleSections } from '../src/shared/forms/configuration.ts'

const field = (alias: string, required = false): Field => ({ alias, type: 'string', required, label: alias })
const configuration = {
  version: 1,
  sections: [
    { title: 'One', items: [{ field: 'kind' }, { text: 'Hello' }, { nothing: 1 }] },
    { when: { field: 'kind', in: ['b'] }, items: [{ field: 'more', label: 'More of it', required: true }] },
    { when: { field: 'more', in: ['x'] }, items: [{ field: 'last' }] },
  ],
}
const sections = sectionsOf(configuration) ?? []

test('a configuration is read and written again', () => {
  assert.equal(sections.length, 3)
  assert.deepEqual(sections[0]?.items, [{ field: 'kind' }, { text: 'Hello' }])
  assert.deepEqual(sectionsOf(configurationOf(sections)), sections)
  assert.equal(sectionsOf({ rows: [] }), undefined)
  assert.equal(sectionsOf({ ...configuration, version: 2 }), undefined)
})

test('a section is shown if its condition is met and the field of the condition is shown', () => {
  const count = (values: object) => visibleSections(sections, values as never).length
  assert.equal(count({}), 1)
  assert.equal(count({ kind: 'b' }), 2)
  assert.equal(count({ kind: 'b', more: 'x' }), 3)
  assert.equal(count({ kind: 'a', more: 'x' }), 1)
  assert.equal(count({ kind: ['a', 'b'] }), 2)
  const when = (condition: object) =>
    visibleSections(
      sectionsOf({ sections: [{ items: [{ field: 'box' }] }, { when: condition, items: [] }] } as never) ?? [],
      {},
    )
  assert.equal(when({ field: 'box', equals: false }).length, 2)
  assert.equal(when({ field: 'box', in: [true] }).length, 1)
})

test('fields are called as the form says', () => {
  const [, more] = fieldsIn(sections, [field('kind'), field('more')])
  assert.deepEqual([more?.label, more?.required], ['More of it', true])
})

test('deleted and missing fields are reported', () => {
  const { gone, missing } = flaws(sections, [field('kind'), field('more'), field('number', true)])
  assert.deepEqual(gone, ['last'])
  assert.deepEqual(
    missing.map(({ alias }) => alias),
    ['number'],
  )
})
