// Edits an object that other users may change at the same time. Changes of others are merged; a dialog asks about
// fields that both changed.

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
  /** The values with which the form began. */
  values: Fields
}

export interface Merging {
  base: Base
  values: Fields
  setValues: (change: (before: Fields) => Fields) => void
  /** Reads the current state after a refusal, and merges it with the typed values. */
  merged: () => Promise<void>
  /** The fields whose values the user must choose before the form is sent again. */
  question: ReactNode
  /** The number of such choices. `useSettled` then sends the form. */
  settled: number
}

/** The object as others changed it, and the function that undoes the merge if the dialog is closed. */
interface Theirs {
  values: Fields
  /** The user and the time of the last change, from the API. */
  by: Instance
  /** Fields whose members are merged one by one. */
  groups?: Field[]
  onBack: () => void
}

/** The variant for objects without an entity tag: `read` returns the state of the object as others changed it. */
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
    /** Takes the changes that only the other user made. */
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
    /** The fields whose values the user must choose before the form is sent again. */
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

/** Sends the choices when the form has them. */
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
  const [former, setFormer] = useState(begin)
  const { instance, etag, values: first } = former
  const { base, values, setValues, take, question, settled } = useMerged(first, read(instance).fields)
  const merged = async () => {
    const { data, etag: tag } = await call<Instance>('GET', path)
    const theirs = read(data)
    setFormer({ instance: theirs.instance, etag: tag, values: theirs.values })
    take({ values: theirs.values, by: theirs.instance, groups: theirs.fields, onBack: () => setFormer(former) })
  }
  return { base: { instance, etag, values: base }, values, setValues, merged, question, settled }
}
