// The texts of the console. `texts/` has one file for each language. An unknown key does not compile.

import { LocalizedStringDictionary, LocalizedStringFormatter } from '@internationalized/string'
import type messages from '../texts/en-GB.json'
// @ts-expect-error: compiled by vite.config.ts
import compiled from '../texts/en-GB.json?first'

export type Key = keyof typeof messages
type Values = { [name: string]: string | number | boolean }

export const LANGUAGE = 'en-GB'
// The kit would speak as the browser does, and has no texts for that.
Object.assign(globalThis, { [Symbol.for('react-aria.i18n.locale')]: LANGUAGE })

const formatter = new LocalizedStringFormatter(
  LANGUAGE,
  new LocalizedStringDictionary<string, string>({ [LANGUAGE]: compiled }, LANGUAGE),
)

/** The texts of all that is fetched after the first list. */
export async function moreTexts(): Promise<void> {
  // @ts-expect-error: compiled by vite.config.ts
  Object.assign(compiled, (await import('../texts/en-GB.json?more')).default)
}

const has = (key: string): key is Key => Object.hasOwn(compiled, key)

export function t(key: Key, values?: Values): string {
  if (has(key)) return formatter.format(key, values as Record<string, string>)
  // A page without one of its texts is better than none.
  reportError(new Error(`The text ${key} is not there.`))
  return key
}

/** The text of a name from the API: its own, else one derived from the name. */
export function named(kind: 'field' | 'resource' | 'action' | 'event', name: string): string {
  const key = `${kind}.${name}`
  if (has(key)) return t(key)
  const words = name.replaceAll('_', ' ')
  return words.charAt(0).toUpperCase() + words.slice(1)
}

/** The label of a field. Records have their own. */
export const labelOf = ({ alias, label }: { alias: string; label?: string }): string => label ?? named('field', alias)
