// What was pressed, as shortcuts are written, and how people see it on their keyboard.

interface Pressed {
  key: string
  ctrlKey: boolean
  metaKey: boolean
  altKey: boolean
  shiftKey: boolean
}

/** Undefined where the key is of the browser or the system. A sign that some keyboards make with AltGr (or Option) is that sign. */
export function pressed({ key, ctrlKey, metaKey, altKey, shiftKey }: Pressed): string | undefined {
  if (altKey) return /^[^\w\s]$/.test(key) ? key : undefined
  const name = key === ' ' ? 'Space' : key
  if (ctrlKey || metaKey) return `Ctrl+${name.length === 1 ? name.toUpperCase() : name}`
  // Signs are what they are, with whichever keys they are made.
  const isShifted = shiftKey && /^([A-Za-z]|Arrow\w+)$/.test(name)
  return `${isShifted ? 'Shift+' : ''}${name.length === 1 ? name.toLowerCase() : name}`
}

const SIGNS: [string, string][] = [
  ['ArrowDown', '↓'],
  ['ArrowUp', '↑'],
  ['Escape', 'Esc'],
]

/** The keys as they are written on the keyboard of a Mac, or of another machine. */
export function written(keys: string, isMac: boolean): string {
  const plain = SIGNS.reduce((text, [name, sign]) => text.replace(name, sign), keys)
  return isMac ? plain.replace('Ctrl+', '⌘').replace('Shift+', '⇧') : plain
}
