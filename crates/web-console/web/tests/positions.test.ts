import assert from 'node:assert/strict'
import test from 'node:test'
import { moved, type Placed, placed } from '../src/shared/positions.ts'

/** The order of the API after the changes. */
function after(items: Placed[], changes: Placed[]): number[] {
  return items
    .map((item) => changes.find(({ id }) => id === item.id) ?? item)
    .toSorted((a, b) => a.position - b.position || a.id - b.id)
    .map(({ id }) => id)
}

const check = (items: Placed[]) => {
  for (const from of items.keys())
    for (const to of items.keys())
      assert.deepEqual(
        after(items, placed(items, from, to)),
        moved(items, from, to).map(({ id }) => id),
        `${from} to ${to}`,
      )
}

test('every move ends where it should', () => {
  check([1, 2, 3, 4, 5].map((n) => ({ id: n, position: n })))
  check([1, 2, 3, 4, 5].map((n) => ({ id: n, position: 0 })))
  check([
    { id: 5, position: 1 },
    { id: 2, position: 2 },
    { id: 9, position: 2 },
    { id: 1, position: 3 },
    { id: 7, position: 3 },
  ])
})

test('a move to where there is room changes one field alone', () => {
  const items = [1, 2, 3].map((n) => ({ id: n, position: n * 10 }))
  assert.equal(placed(items, 2, 0).length, 1)
  assert.equal(placed(items, 0, 1).length, 1)
})
