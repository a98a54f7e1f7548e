// The fields of forms: each with its label, its hint and its message tied to it.

import { type ReactNode, use, useEffect, useId, useState } from 'react'
import {
  Button,
  ComboBox,
  ComboBoxStateContext,
  FieldError,
  Input,
  TextField as KitTextField,
  Label,
  ListBox,
  ListBoxItem,
  Popover,
  Text,
  TextArea,
} from 'react-aria-components'
import { session } from '../api/session.ts'
import type { Choice } from '../api/shapes.ts'
import { t } from '../texts.ts'
import { type By, useChoices } from './choices.ts'
import css from './controls.module.css'
import { Icon } from './icons.tsx'
import { useMessages } from './messages.ts'

export interface FieldProps {
  name: string
  label: string
  hint?: string | undefined
  isRequired?: boolean | undefined
  isDisabled?: boolean | undefined
}

export function Caption({ label, isRequired }: FieldProps) {
  return (
    <Label className={css.label ?? ''}>
      {label}
      {!isRequired && <span className={css.optional}>{` ${t('optional')}`}</span>}
    </Label>
  )
}

export function Below({ name, hint, children }: { name: string; hint?: string | undefined; children?: ReactNode }) {
  const error = useMessages(name)
  return (
    <>
      {hint && (
        <Text slot="description" className={css.hint ?? ''}>
          {hint}
        </Text>
      )}
      {children}
      <FieldError className={css.error ?? ''}>{error}</FieldError>
    </>
  )
}

/** Password managers and browsers look for a name in each form with passwords. */
export function ForWhom() {
  return <input type="text" hidden readOnly autoComplete="username" value={session()?.user?.username ?? ''} />
}

export interface TextProps extends FieldProps {
  value: string
  onChange: (value: string) => void
  onBlur?: () => void
  type?: 'text' | 'email' | 'url' | 'password' | 'search'
  maxLength?: number | undefined
  isLong?: boolean
  isNarrow?: boolean
  inputMode?: 'numeric' | 'decimal'
  autoComplete?: string
  autoFocus?: boolean
}

export function TextField({
  value,
  onChange,
  type = 'text',
  maxLength,
  isLong,
  isNarrow,
  autoFocus,
  ...props
}: TextProps) {
  const { name, isDisabled, inputMode, autoComplete = 'off' } = props
  const charactersLeft = maxLength === undefined ? undefined : maxLength - value.length
  const isInvalid = useMessages(name) !== undefined
  return (
    <KitTextField
      className={css.field ?? ''}
      name={name}
      type={type}
      value={value}
      onChange={onChange}
      isRequired={props.isRequired ?? false}
      isDisabled={isDisabled ?? false}
      isInvalid={isInvalid}
      autoComplete={autoComplete}
      validationBehavior="aria"
      {...(props.onBlur && { onBlur: props.onBlur })}
      {...(inputMode && { inputMode })}
    >
      <Caption {...props} />
      {/* Password managers and browsers look for the name beside every password. */}
      {isLong ? (
        <TextArea className={css.input ?? ''} rows={3} />
      ) : (
        <Input className={`${css.input} ${isNarrow ? css.narrow : ''}`} type={type} {...(autoFocus && { autoFocus })} />
      )}
      <Below name={props.name} hint={props.hint}>
        {charactersLeft !== undefined && charactersLeft < 20 && (
          <span className={css.hint}>{t('characters-left', { count: charactersLeft })}</span>
        )}
      </Below>
    </KitTextField>
  )
}

export function NumberField({ value, onChange, ...props }: Omit<TextProps, 'type'>) {
  return <TextField {...props} value={value} onChange={onChange} inputMode="decimal" isNarrow />
}

/** A choice from a few, all visible. */
export function Radios({
  value,
  onChange,
  choices,
  ...props
}: FieldProps & {
  value: string | number | null
  onChange: (value: string | number) => void
  choices: Choice[]
}) {
  return (
    <Fieldset {...props}>
      {choices.map((choice) => (
        <label key={choice.value} className={css.check}>
          <input
            type="radio"
            name={props.name}
            checked={choice.value === value}
            disabled={props.isDisabled}
            onChange={() => onChange(choice.value)}
          />
          {choice.text}
        </label>
      ))}
    </Fieldset>
  )
}

/** A group of controls that answer one question. */
export function Fieldset({ name, label, hint, isRequired, children }: FieldProps & { children: ReactNode }) {
  const error = useMessages(name)
  const id = useId()
  return (
    <div
      role="group"
      aria-labelledby={`${id}l`}
      aria-describedby={`${id}h ${id}e`}
      className={css.field}
      data-field={name}
    >
      <span id={`${id}l`} className={css.label}>
        {label}
        {isRequired === false && <span className={css.optional}>{` ${t('optional')}`}</span>}
      </span>
      {hint && (
        <span id={`${id}h`} className={css.hint}>
          {hint}
        </span>
      )}
      {children}
      {error && (
        <span id={`${id}e`} className={css.error}>
          {error}
        </span>
      )}
    </div>
  )
}

/** A yes or no. */
export function Checkbox({
  name,
  label,
  hint,
  value,
  onChange,
  isDisabled,
}: FieldProps & {
  value: boolean
  onChange: (value: boolean) => void
}) {
  const error = useMessages(name)
  const id = useId()
  return (
    <div className={css.field} data-field={name}>
      <label className={css.check}>
        <input
          type="checkbox"
          name={name}
          checked={value}
          disabled={isDisabled}
          aria-describedby={`${id}h ${id}e`}
          aria-invalid={error ? true : undefined}
          onChange={(event) => onChange(event.target.checked)}
        />
        {label}
      </label>
      {hint && (
        <span id={`${id}h`} className={css.hint}>
          {hint}
        </span>
      )}
      {error && (
        <span id={`${id}e`} className={css.error}>
          {error}
        </span>
      )}
    </div>
  )
}

/** A choice from many. */
export function Select({
  value,
  onChange,
  choices,
  ...props
}: FieldProps & {
  value: string | number | null
  onChange: (value: string | number | null) => void
  choices: Choice[]
}) {
  const error = useMessages(props.name)
  const id = useId()
  return (
    <div className={css.field} data-field={props.name}>
      <label className={css.label} htmlFor={id}>
        {props.label}
        {!props.isRequired && <span className={css.optional}>{` ${t('optional')}`}</span>}
      </label>
      <select
        id={id}
        name={props.name}
        className={css.input}
        value={value ?? ''}
        disabled={props.isDisabled}
        aria-describedby={`${id}h ${id}e`}
        aria-invalid={error ? true : undefined}
        onChange={(event) => {
          const chosen = choices.find((choice) => `${choice.value}` === event.target.value)
          onChange(chosen?.value ?? null)
        }}
      >
        {(value === null || value === '' || !props.isRequired) && <option value="">{t('choose')}</option>}
        {choices.map((choice) => (
          <option key={choice.value} value={choice.value}>
            {choice.text}
          </option>
        ))}
      </select>
      {props.hint && (
        <span id={`${id}h`} className={css.hint}>
          {props.hint}
        </span>
      )}
      {error && (
        <span id={`${id}e`} className={css.error}>
          {error}
        </span>
      )}
    </div>
  )
}

/** The key of the link below the choices: other keys are numbers, or names without a blank. */
const MORE = ' more'

export interface ChooserProps extends FieldProps {
  choices?: Choice[] | undefined
  autocomplete?: string | undefined
}

/**
 * The input of a combo box. A click opens the choices; the focus alone does not, because they would cover the next
 * control.
 */
function ChooserInput() {
  const state = use(ComboBoxStateContext)
  return <Input className={css.input ?? ''} onClick={() => state?.open(null, 'manual')} />
}

/** A combo box: the typed text narrows the choices. */
export function Chooser({
  value,
  text,
  onChange,
  choices,
  autocomplete,
  by,
  isAdding = false,
  without,
  more,
  ...props
}: ChooserProps & {
  value: Choice['value'] | null
  by?: By
  /** A link below the choices to create one. */
  more?: { text: string; run: () => void } | undefined
  /** The choice is added elsewhere: the control becomes empty again and keeps the focus. */
  isAdding?: boolean
  /** Values that the API returns and that cannot be chosen here. */
  without?: Choice['value'][]
  /** The text of the chosen value, if it is not in `choices`. */
  text?: string | undefined
  onChange: (choice: Choice | null) => void
}) {
  const chosen = text ?? choices?.find((choice) => choice.value === value)?.text ?? (value === null ? '' : `${value}`)
  const isInvalid = useMessages(props.name) !== undefined
  const [typed, setTyped] = useState(chosen)
  useEffect(() => setTyped(chosen), [chosen])
  const isSearching = typed !== chosen
  // A choice closes the list. An adding control, which becomes empty again, counts as chosen until then.
  const [added, setAdded] = useState<Choice['value'] | null>(null)
  useEffect(() => {
    if (added !== null) setAdded(null)
  }, [added])
  // A page may have a hundred of them, so only a control that gets the focus asks the API.
  const [isWanted, setIsWanted] = useState(false)
  const loaded = useChoices(autocomplete, isSearching ? typed : '', isWanted, by)
  const all =
    choices?.filter((choice) => !isSearching || choice.text.toLowerCase().includes(typed.toLowerCase())) ??
    loaded?.filter((choice) => !without?.includes(choice.value)) ??
    []
  return (
    <ComboBox
      className={css.field ?? ''}
      name={props.name}
      isRequired={props.isRequired ?? false}
      isDisabled={props.isDisabled ?? false}
      isInvalid={isInvalid}
      items={[...all.slice(0, 100), ...(more ? [{ value: MORE, text: more.text }] : [])]}
      inputValue={typed}
      onInputChange={(now) => {
        setTyped(now)
        if (now === '') onChange(null)
      }}
      selectedKey={isAdding ? added : value}
      onSelectionChange={(key) => {
        if (key === MORE) return more?.run()
        const choice = all.find((one) => one.value === key)
        if (choice) {
          setTyped(isAdding ? '' : choice.text)
          if (isAdding) setAdded(choice.value)
          onChange(choice)
        }
      }}
      onFocus={() => setIsWanted(true)}
      onBlur={() => setTyped(chosen)}
      allowsEmptyCollection
      validationBehavior="aria"
    >
      <Caption {...props} />
      <div className={css.group}>
        <ChooserInput />
        <Button className={`${css.button} ${css.icon}`} aria-label={t('show-choices')}>
          <Icon name="chevron-down" />
        </Button>
      </div>
      <Below name={props.name} hint={props.hint} />
      <Popover className={css.popover ?? ''}>
        <ListBox
          className={css.list ?? ''}
          renderEmptyState={() => <p className={css.nothing}>{t(choices || loaded ? 'nothing-found' : 'searching')}</p>}
        >
          {(choice: Choice) => (
            <ListBoxItem id={choice.value} textValue={choice.text} className={css.item ?? ''}>
              {choice.text}
            </ListBoxItem>
          )}
        </ListBox>
      </Popover>
    </ComboBox>
  )
}

/** Several of many, as tags; the combo box below them adds one. */
export function MultiChooser({
  value,
  onChange,
  choices,
  autocomplete,
  ...props
}: ChooserProps & {
  value: Choice[]
  onChange: (value: Choice[]) => void
}) {
  const unchosen = choices?.filter((choice) => value.every((one) => one.value !== choice.value))
  return (
    <div className={`${css.field} ${css.several}`} data-field={props.name}>
      <Chooser
        {...props}
        isAdding
        choices={unchosen}
        autocomplete={autocomplete}
        without={value.map((one) => one.value)}
        value={null}
        onChange={(choice) => choice && onChange([...value, choice])}
      />
      {value.length > 0 && (
        <ul className={css.tags} aria-label={props.label}>
          {value.map((choice) => (
            <li key={choice.value} className={css.tag}>
              {choice.text}
              <button
                type="button"
                className={css.remove}
                aria-label={t('remove-one', { name: choice.text })}
                disabled={props.isDisabled}
                onClick={() => onChange(value.filter((one) => one !== choice))}
              >
                {'×'}
              </button>
            </li>
          ))}
        </ul>
      )}
    </div>
  )
}

/** A text a line. */
export function Lines({
  value,
  onChange,
  ...props
}: FieldProps & { value: string[]; onChange: (value: string[]) => void }) {
  return (
    <TextField
      {...props}
      hint={props.hint ?? t('one-a-line')}
      value={value.join('\n')}
      onChange={(text) => onChange(text === '' ? [] : text.split('\n'))}
      isLong
    />
  )
}
