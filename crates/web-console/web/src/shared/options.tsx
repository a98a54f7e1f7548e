// The input for the options of an enumeration.

import type { Json } from '../api/shapes.ts'
import { Ordered } from '../generic/ordered.tsx'
import type { InputProps } from '../generic/resource.ts'
import { useAdded } from '../kit/added.ts'
import { Button } from '../kit/buttons.tsx'
import { Fieldset, TextField } from '../kit/fields.tsx'
import { t } from '../texts.ts'
import look from './designer.module.css'
import { type Option, optionsOf, valueFrom } from './option-values.ts'
import { moved } from './positions.ts'

/** The options of an enumeration: the stored value of each, its text, and their order. */
export function Options({ field, name, value, onChange, instance }: InputProps) {
  const options = optionsOf(value)
  const stored = new Set(optionsOf(instance?.options).map((option) => option.value))
  const set = (now: Option[]) => onChange(now as unknown as Json)
  const [list, add] = useAdded<HTMLOListElement>(options.length)
  const put = (n: number, change: Partial<Option>) => set(options.with(n, { ...(options[n] as Option), ...change }))
  return (
    <Fieldset name={name} label={t('field.options')} hint={field.description ?? t('field.options.hint')}>
      <Ordered
        listRef={list}
        label={t('field.options')}
        items={options}
        keyOf={(_, n) => `${n}`}
        nameOf={(option) => option.text || option.value}
        onMove={(from, to) => set(moved(options, from, to))}
      >
        {(option, n) => (
          <div className={look.option}>
            <TextField
              name={`${name}.${n}.text`}
              label={t('option.text')}
              isRequired
              value={option.text}
              maxLength={100}
              onChange={(text) => {
                const follows = !stored.has(option.value) && option.value === valueFrom(option.text)
                put(n, follows ? { text, value: valueFrom(text) } : { text })
              }}
            />
            <TextField
              name={`${name}.${n}.value`}
              label={t('option.value')}
              isRequired
              value={option.value}
              maxLength={50}
              onChange={(now) => put(n, { value: now })}
            />
            <Button
              look="quiet"
              icon="trash-2"
              aria-label={t('remove-one', { name: option.text || option.value })}
              onPress={() => set(options.toSpliced(n, 1))}
            />
          </div>
        )}
      </Ordered>
      <div>
        <Button
          icon="plus"
          isDisabled={options.length === (field.validators?.[0]?.value ?? 500)}
          onPress={() => {
            add()
            set([...options, { value: '', text: '' }])
          }}
        >
          {t('option.add')}
        </Button>
      </div>
    </Fieldset>
  )
}
