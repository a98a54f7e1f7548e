import assert from 'node:assert/strict'
import test from 'node:test'
import { answerOf, fieldOf, missing, questionsOf, shownOf } from '../src/shared/forms/questions.ts'

const questions =
  questionsOf({
    questions: [
      { name: 'day', label: 'When?', type: 'date', required: true },
      { name: 'day', label: 'Again' },
      { name: 'meal', type: 'choice', options: [{ value: 'all', text: 'Everything' }, { value: { a: 1 } }, null] },
      { name: 'also', type: 'choices', options: [1, 2] },
      { name: 'odd', type: 'colour' },
      'nothing',
      {},
    ],
  }) ?? []

test('questions are read, and invalid ones are ignored', () => {
  assert.deepEqual(
    questions.map(({ name, type, label }) => [name, type, label]),
    [
      ['day', 'date', 'When?'],
      ['meal', 'choice', 'meal'],
      ['also', 'choices', 'also'],
      ['odd', 'text', 'odd'],
    ],
  )
  assert.equal(questionsOf({}), undefined)
  assert.equal(questionsOf(null), undefined)
})

test('an option that is no text comes back as it is', () => {
  const [, meal, also] = questions
  assert.ok(meal && also)
  assert.deepEqual(fieldOf(meal).values, [
    { value: 'all', text: 'Everything' },
    { value: '{"a":1}', text: '{"a":1}' },
  ])
  assert.deepEqual(answerOf(meal, '{"a":1}'), { a: 1 })
  assert.equal(shownOf(meal, { a: 1 }), '{"a":1}')
  assert.deepEqual(answerOf(also, [2]), [2])
  assert.equal(answerOf(also, []), null)
})

test('a required question without an answer is missing', () => {
  assert.deepEqual(missing(questions, {}), ['day'])
  assert.deepEqual(missing(questions, { day: '2026-01-31' }), [])
})
