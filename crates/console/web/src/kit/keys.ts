// Keys that work on the whole page. Single ones act outside fields alone, and can be switched off.

import { useEffect, useRef } from 'react'

export interface Shortcut {
  /** As people write it: `/`, `g u`, `Ctrl+K`, `Shift+j`. Without any it is in the palette alone. */
  keys?: string
  text: string
  run: () => void
}

const active = new Set<{ current: Shortcut[] }>()
let prefix = ''
let forgetting: ReturnType<typeof setTimeout> | undefined

let singleKeys = true

/** Single keys can be switched off: programs that speak to the page type them. */
export function switchSingleKeys(on: boolean) {
  singleKeys = on
}

/** The shortcuts that work now, those of the innermost part last. */
export const shortcuts = () => [...active].flatMap(({ current }) => current)

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    target.closest(
      'input, textarea, select, [contenteditable], [role=menu], [role=listbox], dialog, [role=dialog], [role=alertdialog]',
    ) !== null
  )
}

function pressed(event: KeyboardEvent): string {
  const key = event.key.length === 1 && !event.shiftKey ? event.key.toLowerCase() : event.key
  const modifier = event.ctrlKey || event.metaKey ? 'Ctrl+' : ''
  if (modifier) return `${modifier}${key.length === 1 ? key.toUpperCase() : key}`
  const shift = event.shiftKey && /^[A-Z]$/.test(key) ? 'Shift+' : ''
  return `${shift}${shift ? key.toLowerCase() : key}`
}

document.addEventListener('keydown', (event) => {
  if (event.defaultPrevented || event.altKey || event.isComposing) return
  const key = pressed(event)
  const isSingle = !key.startsWith('Ctrl+')
  if (isSingle && (isTyping(event.target) || !singleKeys)) return
  const all = shortcuts().toReversed()
  const found =
    all.find(({ keys }) => keys === (prefix ? `${prefix} ${key}` : key)) ?? all.find(({ keys }) => keys === key)
  clearTimeout(forgetting)
  prefix = ''
  if (found) {
    event.preventDefault()
    found.run()
  } else if (isSingle && all.some(({ keys }) => keys?.startsWith(`${key} `))) {
    prefix = key
    forgetting = setTimeout(() => {
      prefix = ''
    }, 1500)
  }
})

/** Adds shortcuts while the component is shown. */
export function useShortcuts(list: Shortcut[]) {
  const holder = useRef(list)
  holder.current = list
  useEffect(() => {
    active.add(holder)
    return () => {
      active.delete(holder)
    }
  }, [])
}
