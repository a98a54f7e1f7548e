// What is edited beside others who do the same: when somebody else was faster, what only they changed is taken, and what both
// changed is asked about.

import { type ReactNode, useState } from 'react'
import { call } from '../api/request.ts'
import type { Field, Fields, Instance } from '../api/shapes.ts'
import { say } from '../kit/toasts.tsx'
import { t } from '../texts.ts'
import { type Clash, merge, put } from './changes.ts'
import { Conflict } from './conflict.tsx'

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

export function useMerging(
  path: string,
  begin: () => Base,
  /** The instance as the form has it, and its fields. */
  read: (answer: Instance) => { instance: Instance; values: Fields; fields: Field[] },
): Merging {
  const [base, setBase] = useState(begin)
  const [values, setValues] = useState(base.values)
  const [clashes, setClashes] = useState<Clash[]>([])
  const merged = async () => {
    const { data, etag } = await call<Instance>('GET', path)
    const theirs = read(data)
    const settled = merge(base.values, theirs.values, values, theirs.fields)
    setBase({ instance: theirs.instance, etag, values: theirs.values })
    setValues(settled.merged)
    setClashes(settled.clashes)
    if (settled.clashes.length === 0) say(t('conflict.merged'))
  }
  const question = (
    <Conflict
      clashes={clashes}
      fields={read(base.instance).fields}
      onSettled={(chosen) => {
        setValues((before) => chosen.reduce((all, [name, value]) => put(all, name, value), before))
        setClashes([])
      }}
    />
  )
  return { base, values, setValues, merged, question }
}
