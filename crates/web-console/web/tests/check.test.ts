import assert from 'node:assert/strict'
import test from 'node:test'
import { fieldAt, flawOf } from '../src/generic/check.ts'

const field = (type: string, validators: { [name: string]: number } = {}, required = true) => ({
  alias: 'field',
  type,
  required,
  validators: Object.entries(validators).map(([name, value]) => ({ name: name as 'max_length', value })),
})

test('a required value is missed, unless an empty text leaves the stored one', () => {
  assert.deepEqual(flawOf(field('string'), ' '), { key: 'required' })
  assert.deepEqual(flawOf(field('integer'), null), { key: 'required' })
  assert.equal(flawOf(field('string'), '', true), undefined)
  assert.equal(flawOf(field('string', {}, false), ''), undefined)
  assert.equal(flawOf(field('boolean'), null), undefined)
})

test('texts are counted in characters', () => {
  assert.deepEqual(flawOf(field('string', { max_length: 2 }), 'abc'), { key: 'check.long', limit: 2 })
  assert.equal(flawOf(field('string', { max_length: 2 }), '😀😀'), undefined)
  assert.deepEqual(flawOf(field('string', { min_length: 3 }), 'ab'), { key: 'check.short', limit: 3 })
})

test('numbers have a form and bounds', () => {
  assert.deepEqual(flawOf(field('integer'), '1.5'), { key: 'check.integer' })
  assert.deepEqual(flawOf(field('decimal'), '1,5'), { key: 'check.number' })
  assert.equal(flawOf(field('decimal'), '-1.50'), undefined)
  assert.deepEqual(flawOf(field('integer', { min_value: 1 }), 0), { key: 'check.small', limit: 1 })
  assert.deepEqual(flawOf(field('decimal', { max_value: 10 }), '10.01'), { key: 'check.big', limit: 10 })
})

test('e-mail and web addresses have a form', () => {
  for (const text of ['a@b.example', 'ä.b+c@localhost', "o'neil@x-y.example"])
    assert.equal(flawOf(field('email'), text), undefined, text)
  for (const text of ['a', 'a@', '@b.example', 'a b@c.example', 'a@b@c.example'])
    assert.deepEqual(flawOf(field('email'), text), { key: 'check.email' }, text)
  assert.equal(flawOf(field('url'), 'HTTPS://a.example/b?c#d'), undefined)
  for (const text of ['a.example', 'ftp://a.example', 'https://', 'https://a b'])
    assert.deepEqual(flawOf(field('url'), text), { key: 'check.url' }, text)
})

test('fields of groups and rows are found by their dotted names', () => {
  const inner = { ...field('integer'), alias: 'value' }
  const fields = [
    { ...field('object'), alias: 'rules', schema: [inner] },
    { ...field('list'), alias: 'rows', schema: [inner] },
  ]
  const values = { rules: { value: 1 }, rows: [{}, { value: 2 }] }
  assert.deepEqual(fieldAt(fields, values, 'rules.value'), { field: inner, value: 1 })
  assert.deepEqual(fieldAt(fields, values, 'rows.1.value'), { field: inner, value: 2 })
  assert.deepEqual(fieldAt(fields, {}, 'rows.0.value'), { field: inner, value: undefined })
  assert.equal(fieldAt(fields, values, 'other'), undefined)
})
