import assert from 'node:assert/strict'
import test from 'node:test'
import { inputsOf } from '../src/screens/classes/types.ts'

const field = (alias: string, required = false) => ({ alias, type: 'string', required })
const SCHEMA = [field('label', true), field('type', true), field('options'), field('initial'), field('is_required')]

test('a status is asked for its options and for the first of them', () => {
  const required = inputsOf(SCHEMA, { type: 'status' }, true).filter((one) => one.required)
  assert.deepEqual(
    required.map(({ alias }) => alias),
    ['label', 'type', 'options', 'initial'],
  )
})
