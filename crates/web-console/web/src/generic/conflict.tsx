// The dialog after another user changed the same fields. It shows both values of each field side by side.

import { type ComponentType, useState } from 'react'
import type { Field, Instance, Json } from '../api/shapes.ts'
import { Button } from '../kit/buttons.tsx'
import css from '../kit/controls.module.css'
import { Dialog } from '../kit/dialogs.tsx'
import { isReference, Moment, nameOf, Value } from '../kit/values.tsx'
import { labelOf, t } from '../texts.ts'
import { type Clash, isEmpty } from './changes.ts'
import { fieldAt } from './check.ts'
import look from './generic.module.css'
import { MatrixView } from './matrix.tsx'

export type Views = { [alias: string]: ComponentType<{ value: Json }> }
const VIEWS: Views = { permissions: MatrixView }

const nameIn = (person: Json | undefined) => (isReference(person) ? nameOf(person) : t('conflict.somebody'))

export function Conflict({
  clashes,
  fields,
  views = VIEWS,
  by,
  onSettled,
  onClose,
}: {
  clashes: Clash[]
  fields: Field[]
  /** Views of fields that the type does not describe. */
  views?: Views | undefined
  /** Called with the value for each dotted name. */
  /** The object with its last change: user and time. */
  by: Instance
  onSettled: (chosen: [string, Json | undefined][]) => void
  /** Returns to the form. */
  onClose: () => void
}) {
  const [ours, setOurs] = useState<string[]>([])
  if (clashes.length === 0) return null
  const settle = () =>
    onSettled(clashes.map(({ alias, ours: mine, theirs }) => [alias, ours.includes(alias) ? mine : theirs]))
  return (
    <Dialog title={t('conflict.title', { name: nameIn(by.modified_by) })} isOpen isWide onClose={onClose}>
      <p>
        {typeof by.modified_at === 'string' && (
          <>
            <Moment value={by.modified_at} />
            {'. '}
          </>
        )}
        {t('conflict.text')}
      </p>
      {clashes.map(({ alias, theirs, ours: mine }) => {
        const field = fieldAt(fields, undefined, alias)?.field
        const group = alias.includes('.') ? fieldAt(fields, undefined, alias.replace(/\.[^.]*$/, ''))?.field : undefined
        const name = [group, field].flatMap((one) => (one ? labelOf(one) : [])).join(': ') || alias
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
                  {isEmpty(value) ? (
                    t('none')
                  ) : View ? (
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
        <Button look="primary" onPress={settle}>
          {t('conflict.take')}
        </Button>
        <Button look="quiet" onPress={onClose}>
          {t('cancel')}
        </Button>
      </div>
    </Dialog>
  )
}
