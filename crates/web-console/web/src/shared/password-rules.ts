// The rules that a password meets. Characters are counted like on the server: Unicode characters, not UTF-16 units.

import type { Fields } from '../api/shapes.ts'

/** The rules of the API, in the order in which people read them. */
const RULES = [
  'min_length',
  'min_letters',
  'min_lower_case',
  'min_upper_case',
  'min_numbers',
  'min_symbols',
  'max_repeating_chars',
] as const

export type Rule = (typeof RULES)[number]

const COUNTED: { [rule in Exclude<Rule, 'max_repeating_chars'>]: RegExp } = {
  min_length: /./su,
  min_letters: /\p{Alphabetic}/u,
  min_lower_case: /\p{Lowercase}/u,
  min_upper_case: /\p{Uppercase}/u,
  min_numbers: /\p{N}/u,
  min_symbols: /[^\p{Alphabetic}\p{N}\p{White_Space}]/u,
}

function longestRun(characters: string[]): number {
  let longest = 0
  let run = 0
  for (const [n, character] of characters.entries()) {
    run = character === characters[n - 1] ? run + 1 : 1
    longest = Math.max(longest, run)
  }
  return longest
}

/** The active rules, each with its bound and whether the password meets it. */
export function check(password: string, rules: Fields): { rule: Rule; bound: number; isKept: boolean }[] {
  const characters = [...password]
  return RULES.flatMap((rule) => {
    const bound = Number(rules[rule] ?? 0)
    if (!(bound > 0)) return []
    const isKept =
      rule === 'max_repeating_chars'
        ? longestRun(characters) <= bound
        : characters.filter((one) => COUNTED[rule].test(one)).length >= bound
    return [{ rule, bound, isKept }]
  })
}
