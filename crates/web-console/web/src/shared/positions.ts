// The positions of fields in a class: by position, then by number. A move changes the smallest number of them.

export interface Placed {
  id: number
  position: number
}

/** True if the first of two is before the second. */
const isBefore = (a: Placed, b: Placed) => a.position < b.position || (a.position === b.position && a.id < b.id)

export function moved<T>(items: T[], from: number, to: number): T[] {
  const item = items[from]
  return item === undefined ? items : items.toSpliced(from, 1).toSpliced(to, 0, item)
}

/** The new positions that bring an item to another place, by the ids of those that change. */
export function placed(items: Placed[], from: number, to: number): Placed[] {
  const order = moved(items, from, to)
  const item = order[to]
  const before = order[to - 1]
  const after = order[to + 1]
  if (!item || from === to) return []
  const fits = (position: number) => {
    const candidate = { id: item.id, position }
    return position >= 0 && (!before || isBefore(before, candidate)) && (!after || isBefore(candidate, after))
  }
  const near = [after && after.position - 1, before && before.position + 1, before?.position, after?.position]
  const free = near.find((position) => position !== undefined && fits(position))
  if (free !== undefined) return [{ id: item.id, position: free }]
  const low = Math.min(from, to)
  const high = Math.max(from, to)
  const result: Placed[] = []
  let last = order[low - 1]
  const positions = items.slice(low, high + 1).map(({ position }) => position)
  for (const [n, one] of order.slice(low).entries()) {
    const placed = { id: one.id, position: positions[n] ?? one.position }
    const next = !last || isBefore(last, placed) ? placed : { id: one.id, position: last.position + 1 }
    if (next.position !== one.position) result.push(next)
    else if (low + n > high) break
    last = next
  }
  return result
}
