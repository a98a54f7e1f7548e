// What is edited beside others who do the same: when somebody else was faster, what only they changed is taken, and what both
// changed is asked about.

import { type ReactNode, useState } from 'react'
import { call } from '../api/request.ts'
import type { Field, Fields, Instance } from '../api/shapes.ts'
import { say } from '../kit/toasts.tsx'
import { t } from '../texts.ts'
import { type Clash, merge, put } from './changes.ts'
import { Conflict, type Views } from './conflict.tsx'

export interface Base {
  instance: Instance
  etag: string | null
  /** What of it the form began with. */
  values: Fields
}

export interface Merging {
  base: Base
  values: Fields
  setValues: (change: (before: Fields) => Fields) => void
  /** After a refusal since the state is another one: reads it, and merges it with what was typed. */
  merged: () => Promise<void>
  /** What must be chosen before it can be sent again. */
  question: ReactNode
}

/** For what has another way of telling its state than an entity tag: whoever reads it says what others made of it. */
export function useMerged(first: Fields, fields: Field[], views?: Views) {
  const [base, setBase] = useState(first)
  const [values, setValues] = useState(first)
  const [clashes, setClashes] = useState<Clash[]>([])
  return {
    base,
    values,
    setValues,
    /** Takes what only they changed. `groups` are fields whose members are merged one by one. */
    take: (theirs: Fields, groups: Field[] = []) => {
      const settled = merge(base, theirs, values, groups)
      setBase(theirs)
      setValues(settled.merged)
      setClashes(settled.clashes)
      if (settled.clashes.length === 0) say(t('conflict.merged'))
    },
    /** What must be chosen before it can be sent again. */
    question: (
      <Conflict
        clashes={clashes}
        fields={fields}
        views={views}
        onSettled={(chosen) => {
          setValues((before) => chosen.reduce((all, [name, value]) => put(all, name, value), before))
          setClashes([])
        }}
      />
    ),
  }
}

export function useMerging(
  path: string,
  begin: () => Base,
  /** The instance as the form has it, and its fields. */
  read: (answer: Instance) => { instance: Instance; values: Fields; fields: Field[] },
): Merging {
  const [{ instance, etag, values: first }, setRead] = useState(begin)
  const { base, values, setValues, take, question } = useMerged(first, read(instance).fields)
  const merged = async () => {
    const { data, etag: tag } = await call<Instance>('GET', path)
    const theirs = read(data)
    setRead({ instance: theirs.instance, etag: tag, values: theirs.values })
    take(theirs.values, theirs.fields)
  }
  return { base: { instance, etag, values: base }, values, setValues, merged, question }
}
