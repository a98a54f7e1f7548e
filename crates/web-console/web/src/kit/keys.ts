// Keys that work on the whole page. Single ones act outside fields alone, and can be switched off.

import { createContext, createElement, type ReactNode, useContext, useEffect, useState } from 'react'
import { pressed, written } from './key-names.ts'

export interface Shortcut {
  /** The keys in text form: `/`, `g u`, `Ctrl+K`, `Shift+j`. A shortcut without keys is in the palette only. */
  keys?: string
  text: string
  /** Returns false if there is nothing to do. The browser then handles the key. */
  run: () => unknown
  /** A single key that also works in fields. */
  isInFields?: boolean
}

interface Holder {
  /** Inner parts are drawn after outer ones, and get a higher number. */
  number: number
  layer: number
  list: Shortcut[]
}

let next = 1
const active = new Set<Holder>()
/** The open dialogs, the last one on top. */
const layers: number[] = []
const LayerContext = createContext(0)
let prefix = ''
let forgetting: ReturnType<typeof setTimeout> | undefined

let singleKeys = true

/** Single keys can be switched off: programs that speak to the page type them. */
export function switchSingleKeys(on: boolean) {
  singleKeys = on
}

/** The shortcuts that work now, those of the innermost part last: while a dialog is open, its own alone. */
export const shortcuts = () =>
  [...active]
    .filter(({ layer }) => layer === (layers.at(-1) ?? 0))
    .toSorted((a, b) => a.number - b.number)
    .flatMap(({ list }) => list)

const isMac = /Mac|iPhone|iPad/.test(navigator.platform)

/** The names of keys on this keyboard. */
export const keysText = (keys: string) => written(keys, isMac)

const TEXTS = 'input:not([type=checkbox], [type=radio], [type=button], [type=file]), textarea, [contenteditable]'

/** Typing enters text or chooses: letters and arrows also choose in a select. */
const takesKeys = (target: Element) => target.closest(`${TEXTS}, select, [role=menu], [role=listbox]`) !== null

/** Controls have a use of their own for some keys. */
const isOwn = (target: Element, key: string) =>
  (key === 'Space' && target.matches('button, summary, input')) ||
  (key.includes('Arrow') && target.matches('[type=radio]'))

/** Escape closes the choices of a field first. Later listeners find them closed. */
let hadChoices = false
document.addEventListener(
  'keydown',
  ({ key, target }) => {
    hadChoices = key === 'Escape' && target instanceof Element && target.matches('[role=combobox][aria-expanded=true]')
  },
  true,
)

document.addEventListener('keydown', (event) => {
  if (event.defaultPrevented || event.isComposing || hadChoices) return
  const key = pressed(event)
  const target = event.target instanceof Element ? event.target : document.body
  if (key === undefined || isOwn(target, key)) return
  const isSingle = !key.startsWith('Ctrl+')
  if (isSingle && !singleKeys && !/Escape|Arrow/.test(key)) return
  const isTyping = isSingle && takesKeys(target)
  const all = shortcuts()
    .toReversed()
    .filter(({ isInFields }) => isInFields || !isTyping)
  const shortcut =
    all.find(({ keys }) => keys === (prefix ? `${prefix} ${key}` : key)) ?? all.find(({ keys }) => keys === key)
  clearTimeout(forgetting)
  prefix = ''
  if (shortcut) {
    if (shortcut.run() !== false) event.preventDefault()
  } else if (isSingle && all.some(({ keys }) => keys?.startsWith(`${key} `))) {
    prefix = key
    forgetting = setTimeout(() => {
      prefix = ''
    }, 1500)
  }
})

/** Adds shortcuts while the component is shown. */
export function useShortcuts(list: Shortcut[]) {
  const layer = useContext(LayerContext)
  const [holder] = useState((): Holder => ({ number: next++, layer, list }))
  holder.list = list
  useEffect(() => {
    active.add(holder)
    return () => {
      active.delete(holder)
    }
  }, [holder])
}

/** The content of a dialog. While it is open, only its shortcuts work. */
export function Layer({ children }: { children: ReactNode }) {
  const [number] = useState(() => next++)
  useEffect(() => {
    layers.push(number)
    return () => {
      layers.splice(layers.indexOf(number), 1)
    }
  }, [number])
  return createElement(LayerContext, { value: number }, children)
}
