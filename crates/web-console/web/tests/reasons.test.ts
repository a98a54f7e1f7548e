import assert from 'node:assert/strict'
import test from 'node:test'
import { reasonOf } from '../src/shared/reasons.ts'

test('the reason of a failed test is how its message ends', () => {
  const mail = 'Please check the username, the authentication object and the mail API settings'
  assert.equal(reasonOf(`${mail}: could not connect`), 'connect')
  assert.equal(reasonOf(`${mail}: the connection could not be secured`), 'secure')
  assert.equal(reasonOf(`${mail}: the sign-in was refused`), 'sign-in')
  assert.equal(reasonOf(`${mail}: a recipient was refused`), 'recipient')
  assert.equal(reasonOf('Objects of this provider issue no tokens.'), undefined)
})
