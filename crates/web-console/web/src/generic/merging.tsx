// What is edited beside others who do the same: when somebody else was faster, what only they changed is taken, and what both
// changed is asked about.

import { type ReactNode, useEffect, useState } from 'react'
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
  /** How often that was chosen: `useSettled` sends it then. */
  settled: number
}

/** What others made of something, and what closing the question takes back. */
interface Theirs {
  values: Fields
  /** Who changed it last, and when, as the API tells it. */
  by: Instance
  /** Fields whose members are merged one by one. */
  groups?: Field[]
  onBack: () => void
}

/** For what has another way of telling its state than an entity tag: whoever reads it says what others made of it. */
export function useMerged(first: Fields, fields: Field[], views?: Views) {
  const [base, setBase] = useState(first)
  const [values, setValues] = useState(first)
  const [clashes, setClashes] = useState<Clash[]>([])
  const [by, setBy] = useState<Instance>({})
  const [back, setBack] = useState<() => void>()
  const [settled, setSettled] = useState(0)
  return {
    base,
    values,
    setValues,
    settled,
    /** Takes what only they changed. */
    take: (theirs: Theirs) => {
      const outcome = merge(base, theirs.values, values, theirs.groups ?? [])
      setBack(() => () => {
        setBase(base)
        setValues(values)
        theirs.onBack()
      })
      setBy(theirs.by)
      setBase(theirs.values)
      setValues(outcome.merged)
      setClashes(outcome.clashes)
      if (outcome.clashes.length === 0) say(t('conflict.merged'))
    },
    /** What must be chosen before it can be sent again. */
    question: (
      <Conflict
        clashes={clashes}
        fields={fields}
        views={views}
        by={by}
        onSettled={(chosen) => {
          setValues((before) => chosen.reduce((all, [name, value]) => put(all, name, value), before))
          setClashes([])
          setSettled(settled + 1)
        }}
        onClose={() => {
          back?.()
          setClashes([])
        }}
      />
    ),
  }
}

/** Sends what was chosen, once the form holds it. */
export function useSettled(settled: number, save: () => void) {
  // biome-ignore lint/correctness/useExhaustiveDependencies: once for each choice
  useEffect(() => {
    if (settled > 0) save()
  }, [settled])
}

export function useMerging(
  path: string,
  begin: () => Base,
  /** The instance as the form has it, and its fields. */
  read: (answer: Instance) => { instance: Instance; values: Fields; fields: Field[] },
): Merging {
  const [former, setRead] = useState(begin)
  const { instance, etag, values: first } = former
  const { base, values, setValues, take, question, settled } = useMerged(first, read(instance).fields)
  const merged = async () => {
    const { data, etag: tag } = await call<Instance>('GET', path)
    const theirs = read(data)
    setRead({ instance: theirs.instance, etag: tag, values: theirs.values })
    take({ values: theirs.values, by: theirs.instance, groups: theirs.fields, onBack: () => setRead(former) })
  }
  return { base: { instance, etag, values: base }, values, setValues, merged, question, settled }
}
