import assert from 'node:assert/strict'
import { test } from 'node:test'
import { freeName, grouped } from '../src/shared/second-factors/words.ts'

test('a new factor gets a name that no other has, ignoring case', () => {
  assert.equal(freeName('Passkey', []), 'Passkey')
  assert.equal(freeName('Passkey', ['passkey', 'Passkey 3']), 'Passkey 2')
  assert.equal(freeName('Passkey', ['PASSKEY', 'passkey 2']), 'Passkey 3')
})

test('a secret is read in groups of four characters', () => {
  assert.equal(grouped('I7E2OYVZXETZ'), 'I7E2 OYVZ XETZ')
  assert.equal(grouped('I7E2O'), 'I7E2 O')
})
