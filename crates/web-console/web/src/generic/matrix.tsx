// Actions by resource, as a table of boxes. An action also selects the actions that it requires, and shows that.

import { session } from '../api/session.ts'
import type { Field, Json } from '../api/shapes.ts'
import css from '../kit/controls.module.css'
import { Fieldset } from '../kit/fields.tsx'
import { Icon } from '../kit/icons.tsx'
import { labelOf, named, t } from '../texts.ts'
import { dependents, type Granted, grant, revoke } from './actions.ts'
import look from './generic.module.css'
import type { InputProps } from './resource.ts'

const grantedOf = (value: Json): Granted =>
  value && typeof value === 'object' && !Array.isArray(value) ? (value as Granted) : {}

/** The actions of all resources, in the order of their first appearance. */
const actionsOf = (fields: Field[]) => [
  ...new Set(fields.flatMap(({ values }) => (values ?? []).map(({ value }) => `${value}`))),
]

export function Matrix({ field, name, value, onChange }: InputProps) {
  const fields = field.schema ?? []
  const granted = grantedOf(value)
  const own = session()?.permissions ?? {}
  /** Users can grant only actions that they have. */
  const isLocked = (resource: string, action: string) => own[resource] !== undefined && own[resource]?.[action] !== true
  const actions = actionsOf(fields)
  const has = (resource: string, action: string) => granted[resource]?.includes(action) === true
  const exists = (one: Field, action: string) => one.values?.some((choice) => choice.value === action) === true
  const set = (pairs: [string, string][], isGiven: boolean) => {
    const free = pairs.filter(([resource, action]) => !isLocked(resource, action))
    onChange(
      free.reduce((sum, [resource, action]) => (isGiven ? grant : revoke)(fields, sum, resource, action), granted),
    )
  }
  const row = (one: Field) => (one.values ?? []).map(({ value: action }): [string, string] => [one.alias, `${action}`])
  const column = (action: string) =>
    fields.filter((one) => exists(one, action)).map((one): [string, string] => [one.alias, action])
  const isWhole = (pairs: [string, string][]) =>
    pairs.every(([resource, action]) => has(resource, action) || isLocked(resource, action))
  return (
    <Fieldset name={name} label={labelOf(field)}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard */}
      <div className={look.scroll} tabIndex={0} role="region" aria-label={labelOf(field)}>
        <table className={look.matrix}>
          <thead>
            <tr>
              <td />
              {actions.map((action) => (
                <th key={action} scope="col">
                  <button
                    type="button"
                    className={look.whole}
                    title={t('matrix.column')}
                    onClick={() => set(column(action), !isWhole(column(action)))}
                  >
                    {named('action', action)}
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {fields.map((resource) => (
              <tr key={resource.alias}>
                <th scope="row">
                  <button
                    type="button"
                    className={look.whole}
                    title={t('matrix.row')}
                    onClick={() => set(row(resource), !isWhole(row(resource)))}
                  >
                    {named('resource', resource.alias)}
                  </button>
                </th>
                {actions.map((action) => {
                  if (!exists(resource, action)) return <td key={action} />
                  const needed = dependents(fields, granted, resource.alias, action)
                  const why = isLocked(resource.alias, action)
                    ? t('matrix.locked')
                    : needed.length > 0
                      ? t('matrix.needed', {
                          by: needed
                            .map(([resource, its]) => `${named('resource', resource)}: ${named('action', its)}`)
                            .join(', '),
                        })
                      : undefined
                  return (
                    <td key={action} title={why}>
                      <label>
                        <span className="hidden">{`${named('resource', resource.alias)}: ${named('action', action)}${why ? ` (${why})` : ''}`}</span>
                        <input
                          type="checkbox"
                          checked={has(resource.alias, action)}
                          disabled={isLocked(resource.alias, action)}
                          onChange={(event) => set([[resource.alias, action]], event.target.checked)}
                        />
                      </label>
                    </td>
                  )
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Fieldset>
  )
}

/** The granted actions, read-only. */
export function MatrixView({ value }: { value: Json }) {
  const entries = Object.entries(grantedOf(value)).filter(([, actions]) => actions.length > 0)
  if (entries.length === 0) return <span className={look.none}>{t('none')}</span>
  return (
    <dl className={look.facts}>
      {entries.map(([resource, actions]) => (
        <div key={resource} className={look.fact}>
          <dt>{named('resource', resource)}</dt>
          <dd className={css.tags}>
            {actions.map((action) => (
              <span key={action} className={css.tag}>
                <Icon name="check" />
                {named('action', action)}
              </span>
            ))}
          </dd>
        </div>
      ))}
    </dl>
  )
}
