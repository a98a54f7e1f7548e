import assert from 'node:assert/strict'
import test from 'node:test'
import { pressed, written } from '../src/kit/key-names.ts'

const NONE = { ctrlKey: false, metaKey: false, altKey: false, shiftKey: false }

test('keys are named as shortcuts are written', () => {
  assert.equal(pressed({ ...NONE, key: 'j' }), 'j')
  assert.equal(pressed({ ...NONE, key: 'J', shiftKey: true }), 'Shift+j')
  assert.equal(pressed({ ...NONE, key: 'J' }), 'j', 'with caps lock')
  assert.equal(pressed({ ...NONE, key: 'ArrowUp', shiftKey: true }), 'Shift+ArrowUp')
  assert.equal(pressed({ ...NONE, key: '?', shiftKey: true }), '?')
  assert.equal(pressed({ ...NONE, key: ' ' }), 'Space')
  assert.equal(pressed({ ...NONE, key: 's', metaKey: true }), 'Ctrl+S')
})

test('signs made with AltGr, which reports Ctrl and Alt, are those signs; other keys with Alt are no shortcuts', () => {
  assert.equal(pressed({ ...NONE, key: '[', ctrlKey: true, altKey: true }), '[')
  assert.equal(pressed({ ...NONE, key: ']', altKey: true }), ']')
  assert.equal(pressed({ ...NONE, key: 'f', altKey: true }), undefined)
  assert.equal(pressed({ ...NONE, key: 'ArrowLeft', altKey: true }), undefined)
})

test('keys are shown as they stand on the keyboard', () => {
  assert.equal(written('Ctrl+K', true), '⌘K')
  assert.equal(written('Ctrl+K', false), 'Ctrl+K')
  assert.equal(written('Shift+ArrowDown', false), 'Shift+↓')
  assert.equal(written('Escape', false), 'Esc')
})
