// Names of keys: those of shortcuts, and those on the keyboard of the user.

interface Pressed {
  key: string
  ctrlKey: boolean
  metaKey: boolean
  altKey: boolean
  shiftKey: boolean
}

/**
 * Undefined for keys of the browser or the system. A sign that some keyboards type with AltGr (or Option) is that sign.
 */
export function pressed({ key, ctrlKey, metaKey, altKey, shiftKey }: Pressed): string | undefined {
  if (altKey) return /^[^\w\s]$/.test(key) ? key : undefined
  const name = key === ' ' ? 'Space' : key
  if (ctrlKey || metaKey) return `Ctrl+${name.length === 1 ? name.toUpperCase() : name}`
  // A sign is the same with any combination of keys.
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
