// The page of a component beside its plain fields.

import { useEffect, useState } from 'react'
import { writeJson } from '../../api/json.ts'
import { invalidate } from '../../api/query.ts'
import type { Fields, Instance, Json } from '../../api/shapes.ts'
import look from '../../generic/generic.module.css'
import type { InputProps, PanelProps } from '../../generic/resource.ts'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { Chooser, Fieldset } from '../../kit/fields.tsx'
import { USES, useRepositories } from '../../shared/components/known.ts'
import { labelOf, named, t } from '../../texts.ts'
import {
  ImportAgain,
  MakeRepository,
  mayChange,
  RepositoryFacts,
  RepositoryState,
  useRepository,
} from './repository.tsx'

const PAUSE = 3000

const usesOf = (value: Json | undefined) => (value ?? {}) as Fields

/** The places that offer the component. All are sent, because the API requires each of them. */
export function UsesInput({ field, name, value, onChange }: InputProps) {
  const chosen = usesOf(value)
  const chosenWith = (use: string, isChosen: boolean) =>
    Object.fromEntries(USES.map((one) => [one, one === use ? isChosen : chosen[one] === true]))
  return (
    <Fieldset name={name} label={labelOf(field)} hint={t('custom-components.uses')} isRequired>
      {USES.map((use) => (
        <label key={use} className={css.check}>
          <input
            type="checkbox"
            name={name}
            checked={chosen[use] === true}
            onChange={(event) => onChange(chosenWith(use, event.target.checked))}
          />
          {named('field', use)}
        </label>
      ))}
    </Fieldset>
  )
}

export function UsesView({ value }: { value: Json }) {
  const chosen = USES.filter((use) => usesOf(value)[use] === true)
  if (chosen.length === 0) return <span className={look.none}>{t('none')}</span>
  return (
    <ul className={look.plain}>
      {chosen.map((use) => (
        <li key={use}>{named('field', use)}</li>
      ))}
    </ul>
  )
}

/** The choice of a repository without a component. Another one can be imported from here. */
export function RepositoryInput({ field, name, value, onChange }: InputProps) {
  const { data } = useRepositories()
  const [isMaking, setIsMaking] = useState(false)
  const free = (data ?? []).filter(({ id, component }) => !component || id === value)
  return (
    <div className={look.adding}>
      <Chooser
        name={name}
        label={labelOf(field)}
        hint={t('repositories.free')}
        isRequired={field.required}
        choices={free.map(({ id, address }) => ({ value: id, text: address }))}
        value={typeof value === 'number' ? value : null}
        onChange={(choice) => onChange(choice?.value ?? null)}
      />
      {typeof value === 'number' && <ChosenRepository key={value} id={value} />}
      {mayChange('create') && (
        <div>
          <Button icon="plus" onPress={() => setIsMaking(true)}>
            {t('repositories.import')}
          </Button>
        </div>
      )}
      {isMaking && <MakeRepository onMade={onChange} onDone={() => setIsMaking(false)} />}
    </div>
  )
}

function ChosenRepository({ id }: { id: number }) {
  const { data } = useRepository(id)
  return data ? <RepositoryState repository={data.instance} /> : null
}

export function RepositoryView({ value }: { value: Json }) {
  const { data } = useRepository(Number(value))
  return data ? `${data.instance.repository_url}` : null
}

export function ParametersView({ value }: { value: Json }) {
  const all = (Array.isArray(value) ? value : []) as Fields[]
  if (all.length === 0) return <span className={look.none}>{t('custom-components.no-parameters')}</span>
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
    <div className={look.frame} tabIndex={0} role="region" aria-label={named('field', 'parameters')}>
      <table className={`${look.table} ${look.lines}`}>
        <thead>
          <tr>
            <th scope="col">{t('custom-components.parameter')}</th>
            <th scope="col">{named('field', 'type')}</th>
            <th scope="col">{named('field', 'description')}</th>
            <th scope="col">{t('custom-components.parameter.most')}</th>
            <th scope="col">{named('field', 'options')}</th>
          </tr>
        </thead>
        <tbody>
          {all.map(({ parameter_name: name, ...parameter }) => (
            <tr key={`${name}`}>
              <td data-label={t('custom-components.parameter')}>{`${name}`}</td>
              <td data-label={named('field', 'type')}>{`${parameter.parameter_type}`}</td>
              <td data-label={named('field', 'description')}>{`${parameter.parameter_description ?? ''}`}</td>
              <td data-label={t('custom-components.parameter.most')}>{`${parameter.parameter_limit ?? ''}`}</td>
              <td data-label={named('field', 'options')}>
                {(Array.isArray(parameter.parameter_options) ? parameter.parameter_options : [])
                  .map((option) => (typeof option === 'string' ? option : writeJson(option)))
                  .join(', ')}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** The state of the import of its repository. The component is read again until its files are imported. */
export function Import({ instance, path }: PanelProps) {
  const isWaiting = instance.status === 'processing'
  useEffect(() => {
    if (!isWaiting) return
    const timer = setInterval(() => document.hidden || void invalidate(path), PAUSE)
    return () => clearInterval(timer)
  }, [isWaiting, path])
  const { data } = useRepository(Number(instance.repository))
  const [isAsked, setIsAsked] = useState(false)
  const repository: Instance | undefined = data?.instance
  if (!repository) return null
  return (
    <section className={look.section}>
      <h2>{t('repositories.last-import')}</h2>
      <RepositoryState repository={repository} />
      <dl className={look.facts}>
        <RepositoryFacts repository={repository} />
      </dl>
      {mayChange('edit') && (
        <div>
          <Button onPress={() => setIsAsked(true)}>{t('repositories.import-again')}</Button>
        </div>
      )}
      {isAsked && <ImportAgain repository={repository} onDone={() => setIsAsked(false)} />}
    </section>
  )
}
