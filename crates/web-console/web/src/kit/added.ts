// Moves the focus to the row that a button has just added.

import { type RefObject, useEffect, useRef } from 'react'

const INPUTS = 'input, textarea, select, [role=spinbutton]'

/** A list, and the function that announces a row at its end. The first input of that row gets the focus. */
export function useAdded<E extends HTMLElement>(count: number): [RefObject<E | null>, () => void] {
  const list = useRef<E>(null)
  const isAdding = useRef(false)
  // biome-ignore lint/correctness/useExhaustiveDependencies: it is there when there are more
  useEffect(() => {
    if (isAdding.current) list.current?.querySelector<HTMLElement>(`:scope > :last-child :is(${INPUTS})`)?.focus()
    isAdding.current = false
  }, [count])
  const add = () => {
    isAdding.current = true
  }
  return [list, add]
}
