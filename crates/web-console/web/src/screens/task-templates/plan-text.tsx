// The plan of a template in sentences.

import type { Fields, Json } from '../../api/shapes.ts'
import generic from '../../generic/generic.module.css'
import { FieldInput } from '../../generic/input.tsx'
import type { InputProps, PanelProps } from '../../generic/resource.ts'
import css from '../../kit/controls.module.css'
import { Value } from '../../kit/values.tsx'
import { LANGUAGE, t } from '../../texts.ts'
import { type Line, planOf, type Span } from './plan.ts'

const DAY = new Intl.DateTimeFormat(LANGUAGE, { dateStyle: 'long', timeZone: 'UTC' })
const YEARLY = new Intl.DateTimeFormat(LANGUAGE, { day: 'numeric', month: 'long', timeZone: 'UTC' })

const spanText = ({ unit, count }: Span) => t(`span.${unit}`, { count })

function sentence({ key, span, day, values }: Line): string {
  return t(`plan.${key}`, {
    ...values,
    ...(span && { span: spanText(span) }),
    ...(day && { day: (key === 'annually' ? YEARLY : DAY).format(day) }),
  })
}

function Sentences({ values }: { values: Fields }) {
  const { lines, due, expires } = planOf(values, new Date())
  if (lines.length === 0) return <p className={generic.none}>{t('plan.nothing')}</p>
  const day = (date: Date) => <Value type="date" value={date.toISOString().slice(0, 10)} />
  return (
    <>
      <p>{lines.map(sentence).join(' ')}</p>
      {due && (
        <p className={css.hint}>
          {t('plan.example.due')} {day(due)}
          {expires && (
            <>
              {t('plan.example.expires')} {day(expires)}
            </>
          )}
          {'.'}
        </p>
      )}
    </>
  )
}

export const PlanNotice = ({ values }: { values: Fields }) => (
  <div className={css.notice} role="status">
    <Sentences values={values} />
  </div>
)

export function PlanPanel({ instance }: PanelProps) {
  return (
    <section className={generic.section} aria-label={t('plan')}>
      <h2>{t('plan')}</h2>
      <Sentences values={instance} />
    </section>
  )
}

/** Reminders are last in the form. Below them is the summary of all choices. */
export function Reminders(props: InputProps) {
  const { field, name, value, onChange, values } = props
  return (
    <>
      <FieldInput field={field} name={name} value={value} onChange={onChange} />
      <PlanNotice values={values} />
    </>
  )
}

/** A field that the choice requires must have a value. */
export const Needed = ({ field, name, value, onChange }: InputProps) => (
  <FieldInput field={{ ...field, required: true }} name={name} value={value} onChange={onChange} />
)

/** Reminders or renewals, a sentence each. */
function Told({ values }: { values: Fields }) {
  const { lines } = planOf({ ...values, expiry: 'date' }, new Date())
  if (lines.length === 0) return <span className={generic.none}>{t('none')}</span>
  return (
    <ul className={generic.plain}>
      {lines.map((line) => (
        <li key={sentence(line)}>{sentence(line)}</li>
      ))}
    </ul>
  )
}

export const RemindersView = ({ value }: { value: Json }) => <Told values={{ reminders: value }} />
export const RenewalsView = ({ value }: { value: Json }) => <Told values={{ renewals: value }} />
