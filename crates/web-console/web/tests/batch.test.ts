import assert from 'node:assert/strict'
import test from 'node:test'
import { Refusal } from '../src/api/refusal.ts'
import { cut, inBatches } from '../src/screens/records/batch.ts'

const none = async () => {}

test('refused items of a batch are removed, and the others are sent again', async () => {
  const sent: number[][] = []
  const send = async (items: number[]) => {
    sent.push(items)
    const bad = items.flatMap((item, n) => (item % 2 ? [[n, { fields: { total: ['Wrong.'] } }]] : []))
    if (bad.length) throw new Refusal(400, { items: Object.fromEntries(bad) }, null, null)
  }
  const told: number[] = []
  const outcome = await inBatches(
    cut([1, 2, 3, 4, 6], 3),
    send,
    ({ done }) => told.push(done),
    () => false,
    none,
  )
  assert.deepEqual(sent, [[1, 2, 3], [2], [4, 6]])
  assert.deepEqual(outcome, {
    done: 3,
    refused: [
      { item: 1, text: 'total: Wrong.' },
      { item: 3, text: 'total: Wrong.' },
    ],
  })
  assert.deepEqual(told, [1, 3])
})

test('a batch that is refused as a whole is halved until those are found that are to blame', async () => {
  const send = async (items: number[]) => {
    if (items.includes(7)) throw new Refusal(403, { detail: 'No.' }, null, null)
  }
  const outcome = await inBatches(cut([1, 7, 3, 4, 5]), send, none, () => false, none)
  assert.deepEqual(outcome, { done: 4, refused: [{ item: 7, text: 'No.' }] })
})

test('a limit that is reached is not asked about again for each', async () => {
  let asked = 0
  const send = async () => {
    asked++
    throw new Refusal(400, { detail: 'Limit.', error_code: 'ERR_LIMIT_EXCEEDED' }, null, null)
  }
  const outcome = await inBatches(cut([1, 2]), send, none, () => false, none)
  assert.deepEqual([asked, outcome.refused.length], [1, 2])
})

test('a busy server is asked again, a lost answer is not', async () => {
  const answers = [503, 429, 200, 0]
  const send = async () => {
    const status = answers.shift() ?? 200
    if (status !== 200) throw new Refusal(status, {}, null, null)
  }
  const outcome = await inBatches(cut([1]), send, none, () => false, none)
  assert.equal(outcome.done, 1)
  await assert.rejects(inBatches(cut([1]), send, none, () => false, none))
})

test('nothing is sent after a stop', async () => {
  let isStopped = false
  const outcome = await inBatches(
    cut([1, 2, 3], 1),
    none,
    () => {
      isStopped = true
    },
    () => isStopped,
    none,
  )
  assert.equal(outcome.done, 1)
})
