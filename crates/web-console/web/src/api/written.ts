// JSON that users write for the console. Valid parts are used. Other parts are ignored, and their places are recorded.

import type { Fields, Json } from './shapes.ts'

/** The valid content, and the places of the ignored parts as dotted paths from the top. */
export interface Reading<T> {
  content: T
  flaws: string[]
}

const isObject = (value: Json | undefined): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export class Written {
  readonly value: Json | undefined
  readonly path: string
  readonly flaws: string[]

  constructor(value: Json | undefined, path = '', flaws: string[] = []) {
    this.value = value
    this.path = path
    this.flaws = flaws
  }

  /** Ignores the value at this place. */
  flaw(): undefined {
    this.flaws.push(this.path || 'content')
    return undefined
  }

  at(name: string | number): Written {
    const value = isObject(this.value) || Array.isArray(this.value) ? (this.value as Fields)[name] : undefined
    return new Written(value, this.path ? `${this.path}.${name}` : `${name}`, this.flaws)
  }

  /** True if the value is an object. Unknown members are recorded. */
  has(...names: string[]): boolean {
    if (!isObject(this.value)) return this.flaw() ?? false
    for (const name of Object.keys(this.value)) if (!names.includes(name)) this.at(name).flaw()
    return true
  }

  items(): Written[] {
    if (this.value === undefined) return []
    if (!Array.isArray(this.value)) return this.flaw() ?? []
    return this.value.map((_, n) => this.at(n))
  }

  /** The items that `read` understands. */
  each<T>(read: (item: Written) => T | undefined): T[] {
    return this.items().flatMap((item) => read(item) ?? [])
  }

  text(most: number, test: (text: string) => boolean = () => true): string | undefined {
    if (this.value === undefined) return undefined
    const text = typeof this.value === 'string' ? this.value.trim() : ''
    return text !== '' && text.length <= most && test(text) ? text : this.flaw()
  }

  whole(from: number, to: number): number | undefined {
    if (this.value === undefined) return undefined
    const value = this.value
    return typeof value === 'number' && Number.isInteger(value) && value >= from && value <= to ? value : this.flaw()
  }

  object(): Fields | undefined {
    return this.value === undefined ? undefined : isObject(this.value) ? this.value : this.flaw()
  }
}

/** Reads an object with `version` 1 and these members; nothing is taken of another one. */
export function reading<T>(value: Json | undefined, names: string[], none: T, read: (top: Written) => T): Reading<T> {
  if (value === undefined) return { content: none, flaws: [] }
  const top = new Written(value)
  const isKnown = top.has('version', ...names) && top.at('version').whole(1, 1) === 1
  if (!isKnown) return { content: none, flaws: top.flaws.length > 0 ? top.flaws : ['version'] }
  return { content: read(top), flaws: top.flaws }
}
