import assert from 'node:assert/strict'
import test from 'node:test'
import { check } from '../src/shared/password-rules.ts'

const broken = (password: string, rules: { [rule: string]: number }) =>
  check(password, rules).flatMap(({ rule, isKept }) => (isKept ? [] : [rule]))

test('rules that are off are not told', () => {
  assert.deepEqual(check('a', { min_length: 0, max_repeating_chars: 0 }), [])
  assert.deepEqual(check('a', { min_length: 8 }), [{ rule: 'min_length', bound: 8, isKept: false }])
})

test('characters are counted as Unicode has them', () => {
  assert.deepEqual(broken('aaa1', { max_repeating_chars: 2, min_numbers: 2, min_length: 12 }), [
    'min_length',
    'min_numbers',
    'max_repeating_chars',
  ])
  // One character outside the first plane is one, though it takes two units.
  assert.deepEqual(broken('😀😀😀', { min_length: 4 }), ['min_length'])
  assert.deepEqual(broken('😀😀😀', { max_repeating_chars: 2 }), ['max_repeating_chars'])
  assert.deepEqual(broken('Äß中', { min_letters: 3, min_upper_case: 1, min_lower_case: 1 }), [])
  assert.deepEqual(broken('½Ⅷ٣', { min_numbers: 3 }), [])
  // The Roman numeral is a letter as well: Unicode calls it alphabetic.
  assert.deepEqual(broken('Ⅷ', { min_letters: 1, min_upper_case: 1 }), [])
  assert.deepEqual(broken('a b\u00a0c', { min_symbols: 1 }), ['min_symbols'])
  assert.deepEqual(broken('a-b€', { min_symbols: 2 }), [])
})
