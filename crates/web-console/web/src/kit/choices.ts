// Choices that the API finds.

import { useEffect, useState } from 'react'
import { get } from '../api/request.ts'
import type { Choice, Instance } from '../api/shapes.ts'

const texts = new Map<string, string>()

/** The text of a value when it was last among the choices of an autocomplete. */
export const textFound = (autocomplete: string, value: string) => texts.get(`${autocomplete} ${value}`)

/** Choices that the API returns for a typed text, a moment after the last key. Undefined before the first answer. */
export function useChoices(
  autocomplete: string | undefined,
  text: string,
  isWanted: boolean,
  by: By = 'id',
): Choice[] | undefined {
  const [choices, setChoices] = useState<Choice[] | undefined>()
  useEffect(() => {
    if (!autocomplete || !isWanted) return
    const aborter = new AbortController()
    const ask = async () => {
      const answer = await get<unknown>(address(autocomplete, text), aborter.signal).catch(() => [])
      if (aborter.signal.aborted) return
      const all = choicesOf(answer, by)
      for (const choice of all) texts.set(`${autocomplete} ${choice.value}`, choice.text)
      setChoices(all)
    }
    const timer = setTimeout(() => void ask(), text === '' ? 0 : 150)
    return () => {
      clearTimeout(timer)
      aborter.abort()
    }
  }, [autocomplete, text, isWanted, by])
  return choices
}

/** An autocomplete ends with the parameter for the typed text. Another list of the API is filtered by its name. */
function address(autocomplete: string, text: string): string {
  if (autocomplete.endsWith('=')) return `${autocomplete}${encodeURIComponent(text)}`
  const filter = text ? `name__icontains=${encodeURIComponent(text)}` : ''
  return filter ? `${autocomplete}${autocomplete.includes('?') ? '&' : '?'}${filter}` : autocomplete
}

/** The text of an instance of a list as a choice. */
export type By = 'id' | 'alias'

/** Autocompletes answer values with texts, plain or in an envelope; lists answer instances. */
export function choicesOf(answer: unknown, by: By = 'id'): Choice[] {
  const results = Array.isArray(answer) ? answer : ((answer as { results?: unknown[] }).results ?? [])
  return results.map((item) => {
    const { value, text, [by]: key, uuid, name, label } = item as Instance
    return { value: (value ?? key ?? uuid) as Choice['value'], text: `${text ?? name ?? label ?? value ?? key}` }
  })
}
