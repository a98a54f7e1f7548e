// A date, or a moment in a named time zone. The picker is fetched when the first of them is shown.

import { t } from '../texts.ts'
import css from './controls.module.css'
import look from './date-field.module.css'
import type { FieldProps } from './fields.tsx'
import { part } from './part.tsx'

export interface DateProps extends FieldProps {
  /** A day as ISO 8601 has it, or a moment in UTC; empty where there is none. */
  value: string
  onChange: (value: string | null) => void
  /** Whether it is a moment. */
  hasTime?: boolean
  /** The time zone that moments are shown in, and whose today it is. */
  zone: string
  isReadOnly?: boolean | undefined
}

/** What is said below it. */
export const hintOf = ({ hint, hasTime, zone }: DateProps) =>
  hasTime ? [hint, t('in-zone', { zone })].filter(Boolean).join(' · ') : hint

/** As large as the picker. */
function Empty(props: DateProps) {
  const hint = hintOf(props)
  return (
    <div className={css.field} data-field={props.name}>
      <span className={css.label}>
        {props.label}
        {!props.isRequired && <span className={css.optional}>{` ${t('optional')}`}</span>}
      </span>
      <span className={`${css.input} ${look.group}`} />
      {hint && <span className={css.hint}>{hint}</span>}
    </div>
  )
}

export const DateField = part(() => import('./date-picker.tsx').then(({ Picker }) => Picker), Empty)
