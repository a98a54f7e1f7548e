// Somebody else changed what is edited here: what both changed is asked about, both values side by side.

import { type ComponentType, useState } from 'react'
import type { Field, Fields, Json } from '../api/shapes.ts'
import { Button } from '../kit/buttons.tsx'
import css from '../kit/controls.module.css'
import { Dialog } from '../kit/dialogs.tsx'
import { say } from '../kit/toasts.tsx'
import { Value } from '../kit/values.tsx'
import { labelOf, t } from '../texts.ts'
import { type Clash, merge } from './changes.ts'
import look from './generic.module.css'
import { MatrixView } from './matrix.tsx'

/** The fields of an instance as they were read and as they are typed, merged when somebody else was faster. */
export function useMerged(first: Fields) {
  const [base, setBase] = useState(first)
  const [values, setValues] = useState(first)
  const [clashes, setClashes] = useState<Clash[]>([])
  return {
    base,
    values,
    setValues,
    setBase,
    clashes,
    /** What only they changed is taken, what both changed is asked about; ours is sent when it is saved again. */
    take: (theirs: Fields) => {
      const settled = merge(base, theirs, values)
      setBase(theirs)
      setValues(settled.merged)
      setClashes(settled.clashes)
      if (settled.clashes.length === 0) say(t('conflict.merged'))
    },
    onSettled: (chosen: Fields) => {
      setValues((before) => ({ ...before, ...chosen }))
      setClashes([])
    },
  }
}

type Views = { [alias: string]: ComponentType<{ value: Json }> }
const VIEWS: Views = { permissions: MatrixView }

export function Conflict({
  clashes,
  fields,
  views = VIEWS,
  onSettled,
}: {
  clashes: Clash[]
  fields: Field[]
  /** How fields are shown that no type describes. */
  views?: Views
  onSettled: (chosen: Fields) => void
}) {
  const [ours, setOurs] = useState<string[]>([])
  if (clashes.length === 0) return null
  const take = () =>
    onSettled(
      Object.fromEntries(
        clashes.map(({ alias, ours: mine, theirs }) => [alias, (ours.includes(alias) ? mine : theirs) ?? null]),
      ),
    )
  return (
    <Dialog title={t('conflict.title')} isOpen isWide mustBeAnswered onClose={take}>
      <p>{t('conflict.text')}</p>
      {clashes.map(({ alias, theirs, ours: mine }) => {
        const field = fields.find((one) => one.alias === alias)
        const name = field ? labelOf(field) : alias
        const View = views[alias]
        return (
          <fieldset key={alias} className={look.clash}>
            <legend>{name}</legend>
            {[theirs, mine].map((value, n) => (
              <label key={n === 0 ? 'theirs' : 'ours'} className={css.check}>
                <input
                  type="radio"
                  name={`clash-${alias}`}
                  checked={ours.includes(alias) === (n === 1)}
                  onChange={() => setOurs(n === 1 ? [...ours, alias] : ours.filter((one) => one !== alias))}
                />
                <span>
                  {n === 0 ? t('conflict.theirs') : t('conflict.ours')}{' '}
                  {View ? (
                    <View value={value ?? null} />
                  ) : (
                    <Value type={field?.type ?? 'string'} values={field?.values} value={value} />
                  )}
                </span>
              </label>
            ))}
          </fieldset>
        )
      })}
      <div className={css.actions}>
        <Button look="primary" onPress={take}>
          {t('conflict.take')}
        </Button>
      </div>
    </Dialog>
  )
}
